interface ChoiceProps<N extends string> {
  /** What is chosen, for screen readers. */
  readonly of: string;
  readonly names: readonly N[];
  readonly texts: Readonly<Record<N, { readonly text: string }>>;
  readonly chosen: N;
  readonly onChoose: (name: N) => void;
}

/** Radio buttons in a row. */
export function Choice<N extends string>({ of, names, texts, chosen, onChoose }: ChoiceProps<N>) {
  return (
    <fieldset class="choice">
      <legend class="hidden">{of}</legend>
      {names.map((name) => (
        <label key={name}>
          <input type="radio" name={of} checked={name === chosen} onChange={() => onChoose(name)} />
          {texts[name].text}
        </label>
      ))}
    </fieldset>
  );
}
