import type { StoreTraits } from '../rules/compile/fit.ts';
import type { RuleTree } from '../rules/match/tree.ts';
import { loadSource, openRuleBook } from '../rules/reload/book.ts';
import { plainPath, type RuleSource } from '../rules/reload/files.ts';
import type { LoadedRules, RuleFileState } from '../rules/reload/load.ts';
import { InvalidRules, type RuleOptions } from './rule-options.ts';

const POLL_INTERVAL_MS = 1_000;

/** The current rules, and whatever follows their files. */
export interface CurrentRules {
  tree(): RuleTree | undefined;
  close(): void;
}

/** @throws InvalidRules with all problems */
export async function openRules(options: RuleOptions, store: StoreTraits): Promise<CurrentRules> {
  const { mergeDomains = false, onLoad = () => {} } = options;
  const source = createRuleSource(options);
  if ('files' in options && options.watch) {
    let first: LoadedRules | undefined;
    const book = await openRuleBook(source, {
      mergeDomains,
      store,
      pollIntervalMs: POLL_INTERVAL_MS,
      onLoad(loaded) {
        first ??= loaded;
        onLoad(loaded);
      },
    });
    if (first?.ok) return { tree: book.rules, close: book.close };
    book.close();
    throw new InvalidRules(first?.problems ?? []);
  }
  const loaded = await loadSource(source, { mergeDomains, store });
  onLoad(loaded);
  if (!loaded.ok) throw new InvalidRules(loaded.problems);
  return { tree: () => loaded.rules, close: () => {} };
}

function createRuleSource(options: RuleOptions): RuleSource {
  if ('files' in options) {
    const { files } = options;
    return {
      description: files.join(', '),
      async list() {
        const lists: (readonly RuleFileState[])[] = [];
        for (const path of files) lists.push(await plainPath(path).list());
        return lists.flat();
      },
    };
  }
  const texts = typeof options.text === 'string' ? [{ name: 'rules', text: options.text }] : options.text;
  return {
    description: texts.map(({ name }) => name).join(', '),
    list: async () => texts.map(({ name, text }) => ({ path: name, name, text, state: '' })),
  };
}
