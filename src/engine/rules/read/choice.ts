/**
 * Reads the choice of a key that was written, or the first one if the key is absent. Undefined if it is none of them,
 * which is reported.
 */
export const choiceReader =
  <K extends string>(
    values: { readonly [key in K]?: unknown },
    report: (key: NoInfer<K>, message: string) => undefined,
  ) =>
  <const C extends string>(key: NoInfer<K>, choices: readonly [C, ...C[]]): C | undefined => {
    const written = values[key]?.toString();
    const found = choices.find((one) => one === (written ?? choices[0]));
    return found ?? report(key, `${key} must be ${choices.join(' or ')}, got '${written}'`);
  };
