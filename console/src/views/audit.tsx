import { get } from '../api.ts';
import { Empty, Failure, State, Time, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { seesValues } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

export function Audit() {
  const { data, error } = usePoll(() => get('audit', { count: '200' }), seesValues.value ? [] : undefined, 2_000);
  return (
    <>
      <h1>Audit</h1>
      <p>Changes that operators made, the newest first. The whole log is written to AUDIT_LOG.</p>
      {!seesValues.value && <SignInNeeded what="Audit" />}
      <Failure message={error?.message} />
      {data?.changes.length === 0 && (
        <Empty title="No change yet.">
          <p>Resets, grants, overrides and candidates appear here with the name of the token and the reason.</p>
        </Empty>
      )}
      {data && data.changes.length > 0 && (
        <table class="wide">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">By</th>
              <th scope="col">Change</th>
              <th scope="col">Key</th>
              <th scope="col">Before, after</th>
              <th scope="col">Reason</th>
            </tr>
          </thead>
          <tbody>
            {data.changes.map((line, at) => (
              <tr key={`${line.at} ${at}`}>
                <td>
                  <Time atMs={Date.parse(line.at)} />
                </td>
                <td data-label="By">
                  <Value text={line.who} />
                </td>
                <td data-label="Change">
                  {line.change}
                  {line.failed !== undefined && (
                    <div>
                      <State is="bad">failed</State> <Value text={line.failed} />
                    </div>
                  )}
                </td>
                <td data-label="Key">
                  <What what={line.what} />
                </td>
                <td data-label="Before, after">
                  <Value text={`${stateText(line.before)} → ${stateText(line.after)}`} />
                </td>
                <td data-label="Reason">
                  <Value text={line.reason} whole />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function What({ what }: { readonly what: object }) {
  const { domain, descriptor, rule, hits } = what as Partial<Record<string, string | number>>; // what changes write
  if (Object.keys(what).length === 0) return <span class="dim">none</span>; // the candidate is that of the service
  return (
    <>
      <Value text={String(descriptor ?? '')} />
      <div class="dim">
        {rule ?? domain}
        {hits !== undefined && `, ${hits} hits`}
      </div>
    </>
  );
}

/** A counter's use, the effect of an override, the state or the length of a candidate. */
function stateText(state: unknown): string {
  if (Array.isArray(state)) return state.map(stateText).join(', ');
  if (state === null || state === undefined) return 'none';
  const { used, effect, state: candidate, characters } = state as Written; // what changes write
  if (characters !== undefined) return `${characters} characters`;
  return effect ?? candidate ?? (used === undefined ? JSON.stringify(state) : `${used} used`);
}

interface Written {
  readonly used?: number;
  readonly effect?: string;
  readonly state?: string;
  readonly characters?: number;
}
