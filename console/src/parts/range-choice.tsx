interface RangeChoiceProps<N extends string> {
  /** Names what the range is of. */
  readonly of: string;
  readonly names: readonly N[];
  readonly ranges: Readonly<Record<N, { readonly text: string }>>;
  readonly chosen: N;
  readonly onChoose: (name: N) => void;
}

/** The ranges of time that a plot can show. */
export function RangeChoice<N extends string>({ of, names, ranges, chosen, onChoose }: RangeChoiceProps<N>) {
  return (
    <fieldset class="choice">
      <legend class="hidden">Range of {of}</legend>
      {names.map((name) => (
        <label key={name}>
          <input type="radio" name={`range ${of}`} checked={name === chosen} onChange={() => onChoose(name)} />
          {ranges[name].text}
        </label>
      ))}
    </fieldset>
  );
}
