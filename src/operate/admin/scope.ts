import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { Client } from './access.ts';
import { ApiProblem } from './problem.ts';

/** The names in a query or body that say what an operation is about. */
interface Named {
  readonly domain?: string | undefined;
  readonly rule?: string | undefined;
}

/** The domains that a client may see and change. */
export class Scope {
  readonly #client: Pick<Client, 'name' | 'domains'>;
  readonly #rules: () => RuleTree | undefined;

  /** @param rules  those in force */
  constructor(client: Pick<Client, 'name' | 'domains'>, rules: () => RuleTree | undefined) {
    this.#client = client;
    this.#rules = rules;
  }

  get hasAll(): boolean {
    return this.#client.domains === undefined;
  }

  hasDomain(name: string): boolean {
    return this.#client.domains?.includes(name) ?? true;
  }

  /** Whether a rule belongs to such a domain, by the path that begins with its domain. */
  hasRule(path: string): boolean {
    if (this.hasAll) return true;
    const known = this.#rules()?.domains;
    let isNamed = false; // of a domain that has no rules any more
    for (let dot = path.lastIndexOf('.'); dot > 0; dot = path.lastIndexOf('.', dot - 1)) {
      const domain = path.slice(0, dot);
      if (known?.has(domain)) return this.hasDomain(domain);
      isNamed ||= this.hasDomain(domain);
    }
    return isNamed;
  }

  /** Whether both belong to such a domain, if they are named. */
  hasNamed({ domain, rule }: Named): boolean {
    return (domain === undefined || this.hasDomain(domain)) && (rule === undefined || this.hasRule(rule));
  }

  /** @throws ApiProblem  403 */
  requireAll(): void {
    if (!this.hasAll) throw new ApiProblem(403, `${this.#holder}: this requires a token for all domains`);
  }

  /** @throws ApiProblem  403 */
  require({ domain, rule }: Named): void {
    if (domain !== undefined && !this.hasDomain(domain))
      throw new ApiProblem(403, `${this.#holder}, not for '${domain}'`);
    if (rule !== undefined && !this.hasRule(rule)) throw new ApiProblem(403, `${this.#holder}, not for '${rule}'`);
  }

  /**
   * The domain of an operation on one domain: the one named, else that of a client with only one.
   *
   * @throws ApiProblem  400: it is required; 403
   */
  choose(name: string | undefined): string | undefined {
    const { domains } = this.#client;
    if (name !== undefined) this.require({ domain: name });
    else if (domains && domains.length > 1) throw new ApiProblem(400, `${this.#holder}: name one of them as domain`);
    return name ?? domains?.[0];
  }

  get #holder(): string {
    const { name, domains = [] } = this.#client;
    return `the token of '${name}' is for the domain${domains.length > 1 ? 's' : ''} ${domains.join(', ')}`;
  }
}

/** The names that a client may see: all, without those that contain callers' values, or those of some domains. */
export type View = 'values' | 'hidden' | Scope;

export function chooseView({ client, scope }: { readonly client: Client; readonly scope: Scope }): View {
  if (!client.seesValues) return 'hidden';
  return scope.hasAll ? 'values' : scope;
}
