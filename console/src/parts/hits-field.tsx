interface HitsFieldProps {
  /** The class of its label. */
  readonly class: string;
  readonly value: number;
  readonly onChange: (hits: number) => void;
}

/** A labelled number of hits: from 1 to the largest `hits_addend`, a uint32. */
export const HitsField = ({ class: name, value, onChange }: HitsFieldProps) => (
  <label class={name}>
    Hits
    <input
      type="number"
      min="1"
      max="4294967295"
      required
      value={value}
      onInput={({ currentTarget }) => onChange(Number(currentTarget.value))}
    />
  </label>
);
