import { signal } from '@preact/signals';
import { get } from '../api.ts';
import { history, ruleHistory, rules, snapshot } from '../live.ts';
import { linkTo } from '../route.ts';
import { session } from '../session.ts';
import { CopyButton } from './copy-button.tsx';
import { State } from './texts.tsx';
import { usePoll } from './use-poll.ts';

const DEFAULT_GRPC_PORT = 8081;

/** New users see the first steps until all are done or the panel is closed. */
const isClosed = signal(false);
const begun = signal(false);

const sumOf = (field: string): number => (history.value[field] ?? []).reduce((sum, value) => sum + value, 0);

/** Three commands for the demo rules, and whether they were run. */
export function FirstSteps() {
  const paths = new Set(rules.value?.rules.map(({ path }) => path));
  const isDemo = paths.has('demo.user') && paths.has('demo.api_key');
  const { lastMinute, incidents = [] } = snapshot.value ?? {};
  const isLoaded = history.value.passed !== undefined;
  const isQuiet = isLoaded && lastMinute?.offered === 0 && ruleHistory.value.size === 0 && incidents.length === 0;
  if (isQuiet) begun.value = true;
  const isShown = begun.value && !isClosed.value && rules.value !== undefined;
  const unmatched = usePoll(() => get('unmatched', { count: '1' }), isShown && isDemo ? [] : undefined, 1_000);
  if (!isShown) return null;
  const port = session.value?.grpcPort ?? DEFAULT_GRPC_PORT;
  const service = location.protocol === 'https:' ? location.origin : location.host;
  const target = service === 'localhost:6070' ? '' : ` --target ${service}`;
  if (!isDemo) {
    if (!isQuiet) return null;
    return (
      <section class="panel">
        <h2>No request yet</h2>
        <p>
          Send descriptors to gRPC port {port}, and this page shows them within a second.{' '}
          <a href={linkTo('rules')}>Rules</a> lists what they are matched against; the page of a{' '}
          <a href={linkTo('client')}>client</a> shows the answer to its next request without counting it.
        </p>
      </section>
    );
  }
  const steps = [
    {
      command: `npx weir ask demo user=alice${target}`,
      effect: 'passes: 5 per minute are allowed',
      isDone: sumOf('passed') > 0,
    },
    {
      command: `npx weir ask demo api_key=k2 --hits 11${target}`,
      effect: 'is refused: 11 hits exceed 10 per second',
      isDone: sumOf('refused') > 0,
    },
    {
      command: `npx weir ask demo usr=alice${target}`,
      effect: 'matches no rule: see Unmatched',
      isDone: (unmatched.data?.descriptors.length ?? 0) > 0,
    },
  ];
  return (
    <section class="panel">
      <div class="row">
        <h2>Try the demo rules</h2>
        <button type="button" class="quiet" onClick={() => (isClosed.value = true)}>
          Close
        </button>
      </div>
      <ol class="steps">
        {steps.map(({ command, effect, isDone }) => (
          <li key={command}>
            <code>{command}</code> <CopyButton text={command} of={command} />
            <div>
              <State is={isDone ? 'good' : 'plain'}>{isDone ? 'Seen' : 'Waiting'}</State> {effect}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}
