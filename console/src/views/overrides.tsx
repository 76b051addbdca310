import { get } from '../api.ts';
import { linkToClient } from '../parts/client-link.tsx';
import { Descriptor, Empty, Failure, Headings, OfDomain, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';

/** Overrides of single descriptors. */
export function Overrides() {
  const { data, error } = usePoll(() => get('overrides'), [], 3_000);
  return (
    <section class="panel">
      <h2>Overrides</h2>
      <Failure message={error?.message} />
      {data?.overrides.length === 0 && (
        <Empty title="No override is set.">
          <p>On its page a client is blocked, let in, or given a limit of its own.</p>
        </Empty>
      )}
      {data && data.overrides.length > 0 && (
        <table class="wide">
          <Headings names={['Client', 'Effect', 'Until', 'By', 'Reason']} />
          <tbody>
            {data.overrides.map(({ domain, descriptor, entries, effect, until, by, reason }) => (
              <tr key={`${domain} ${descriptor}`}>
                <td>
                  <a href={linkToClient(domain, entries)}>
                    <Descriptor entries={entries} />
                  </a>
                  <OfDomain domain={domain} />
                </td>
                <td data-label="Effect">{effect}</td>
                <td data-label="Until">{new Date(until).toLocaleString()}</td>
                <td data-label="By">
                  <Value text={by} />
                </td>
                <td data-label="Reason">
                  <Value text={reason} whole />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
