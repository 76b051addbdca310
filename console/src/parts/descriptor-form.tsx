import { useState } from 'preact/hooks';
import { rules } from '../live.ts';
import type { Pair } from '../route.ts';

export interface DescriptorQuery {
  readonly domain: string;
  readonly entries: readonly Pair[];
}

interface DescriptorFormProps {
  readonly initial: DescriptorQuery;
  readonly action: string;
  readonly onSubmit: (asked: DescriptorQuery) => void;
}

/** A form for a domain and the entries of one descriptor, in order. */
export function DescriptorForm({ initial, action, onSubmit }: DescriptorFormProps) {
  const [typedDomain, setDomain] = useState<string>();
  const domain = typedDomain ?? initial.domain; // may become known only later
  const [pairs, setPairs] = useState<readonly Pair[]>(
    initial.entries.length > 0 ? initial.entries : [{ key: '', value: '' }],
  );
  const domains = [...new Set(rules.value?.rules.map((rule) => rule.domain))];
  const change = (at: number, pair: Partial<Pair>): void =>
    setPairs(pairs.map((one, index) => (index === at ? { ...one, ...pair } : one)));
  const submit = (event: Event): void => {
    event.preventDefault();
    onSubmit({ domain, entries: pairs.filter(({ key }) => key !== '') });
  };
  return (
    <form class="panel descriptor-form" onSubmit={submit}>
      <label class="field">
        Domain
        <input list="domains" required value={domain} onInput={({ currentTarget }) => setDomain(currentTarget.value)} />
      </label>
      <datalist id="domains">
        {domains.slice(0, 100).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {pairs.map(({ key, value }, at) => (
        <fieldset key={at} class="pair">
          <legend class="hidden">Entry {at + 1}</legend>
          <label class="field">
            Key {pairs.length > 1 && at + 1}
            <input required value={key} onInput={({ currentTarget }) => change(at, { key: currentTarget.value })} />
          </label>
          <label class="field grow">
            Value {pairs.length > 1 && at + 1}
            <input
              dir="auto"
              value={value}
              onInput={({ currentTarget }) => change(at, { value: currentTarget.value })}
            />
          </label>
          {pairs.length > 1 && (
            <button
              type="button"
              class="quiet"
              aria-label={`Remove entry ${at + 1}`}
              onClick={() => setPairs(pairs.filter((_, index) => index !== at))}
            >
              Remove
            </button>
          )}
        </fieldset>
      ))}
      <div class="row">
        <button type="button" class="quiet" onClick={() => setPairs([...pairs, { key: '', value: '' }])}>
          Add an entry
        </button>
        <button type="submit" class="primary">
          {action}
        </button>
      </div>
    </form>
  );
}
