/**
 * Options of the search, which runs in the browser. VitePress writes the functions into the page as text, so that they
 * can use nothing from outside of themselves.
 */
export const search = {
  provider: 'local',
  options: {
    miniSearch: {
      searchOptions: {
        /** Adds the words of this project to the words that readers bring. */
        processTerm(term: string): string | string[] {
          const word = term.toLowerCase();
          const synonyms: Readonly<Record<string, string[]>> = {
            whitelist: ['exempt', 'overrides'],
            allowlist: ['exempt', 'overrides'],
            blacklist: ['block', 'overrides'],
            denylist: ['block', 'overrides'],
            password: ['password', 'auth'],
            ip: ['ip', 'address'],
            k8s: ['kubernetes'],
          };
          return Object.hasOwn(synonyms, word) ? (synonyms[word] ?? word) : word;
        },
        /** Prefers the variables, and lists the reasons for the design and the results last. */
        boostDocument: (id: string): number =>
          /\/settings(?:\.html)?#/.test(id) ? 1.5 : /\/(?:decisions|results)\//.test(id) ? 0.5 : 1,
      },
    },
  },
} as const;
