import '../../helpers/realm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf, signal } from '../../helpers/child-processes.ts';
import { type ControlPlane, startControlPlane, type Verdict } from '../../helpers/control-plane.ts';
import { createClient } from '../../helpers/grpc-client.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const INTERVAL_MS = 5;

let controlPlane: ControlPlane | undefined;
let weir: Weir | undefined;
afterEach(async () => {
  await weir?.stop();
  controlPlane?.stop();
});

const rules = (limit: number) => [
  { name: 'r', domain: 'demo', descriptors: [{ key: 'user', rate_limit: { unit: 'DAY', requests_per_unit: limit } }] },
];

test('an answer that could not be checked is refused, checked again, and accepted without being sent again', async () => {
  controlPlane = await startControlPlane();
  const source = { CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${controlPlane.port}` };
  const running = await startWeir({ ...source, LOG_LEVEL: 'info' });
  weir = running;
  expect(await controlPlane.serve('v1', rules(5))).toEqual({ ack: 'v1' });
  let isKilling = true;
  const killing = (async () => {
    for (; isKilling; await sleep(INTERVAL_MS)) for (const pid of childrenOf(running.pid)) signal(pid, 'SIGKILL');
  })();
  let newest = 1;
  let verdict: Verdict;
  do {
    newest++;
    verdict = await controlPlane.serve(`v${newest}`, rules(4 + newest));
  } while ('ack' in verdict); // it was checked before this process sent a signal
  expect(verdict).toEqual({
    nack: expect.stringMatching(/^response: cannot be checked; the check will be retried: .*(SIGKILL|EPIPE)$/),
    version: `v${newest - 1}`,
  });
  const TWO_FAILURES_MS = 1_500;
  await sleep(TWO_FAILURES_MS); // only the first failure is logged
  isKilling = false;
  await killing;
  await controlPlane.taken(`v${newest}`);
  const client = createClient(`127.0.0.1:${running.grpcPort}`);
  const { statuses } = await client.ask();
  expect(statuses[0]?.current_limit).toMatchObject({ requests_per_unit: 4 + newest });
  client.close();
  expect(running.output().match(/cannot be checked/g)).toHaveLength(1);
});
