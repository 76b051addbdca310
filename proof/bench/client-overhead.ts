import { parseArgs } from 'node:util';
import { credentials, Client as GrpcClient } from '@grpc/grpc-js';
import { type Client, createClient } from 'weir-client';
import { shouldRateLimit } from '../../src/edge/rls/proto.ts';
import { startWeir } from '../../test/helpers/weir.ts';
import { median } from '../tables/figures.ts';
import { table } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- client-overhead

Measures the CPU time of a call of weir-client, compared with the same call by @grpc/grpc-js and @grpc/proto-loader
alone: calls one after another, and 32 calls in each turn of the event loop. Takes about a minute.
`;

const ROUNDS = 15;
const CALLS = 1_920;
const IN_A_TURN = 32;
const TIMEOUT_MS = 30_000;

/** Makes one call for a user. */
type Call = (user: string) => Promise<unknown>;

interface Row {
  readonly name: string;
  readonly inATurn: number;
  readonly call: Call;
  readonly us: number[];
}

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  const weir = await startWeir({ RULES_PATH: 'config/rules.yaml', WORKERS: '1' });
  const target = `127.0.0.1:${weir.grpcPort}`;
  const raw = new GrpcClient(target, credentials.createInsecure());
  const clients = {
    plain: createClient({ target, timeoutMs: TIMEOUT_MS, batch: false, refusals: false }),
    batching: createClient({ target, timeoutMs: TIMEOUT_MS, refusals: false }),
  };
  const rows = [1, IN_A_TURN].flatMap((inATurn): Row[] => [
    { name: 'grpc-js', inATurn, call: rawCall(raw), us: [] },
    { name: 'weir-client, `batch: false`', inATurn, call: createCall(clients.plain), us: [] },
    { name: 'weir-client', inATurn, call: createCall(clients.batching), us: [] },
  ]);
  for (const row of rows) await measure(row); // warm-up: compiles code and connects
  for (let round = 0; round < ROUNDS; round++) for (const row of rows) row.us.push(await measure(row));
  print(rows);
  raw.close();
  for (const client of Object.values(clients)) client.close();
  await weir.stop();
}

function rawCall(client: GrpcClient): Call {
  const { path, requestSerialize, responseDeserialize } = shouldRateLimit;
  return (user) =>
    new Promise((resolve, reject) => {
      const entries = [{ key: 'user', value: user }];
      const descriptors = [{ entries, limit: null, hits_addend: null, is_negative_hits: false }];
      const deadline = Date.now() + TIMEOUT_MS;
      const request = { domain: 'demo', descriptors, hits_addend: 1 };
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, { deadline }, (error, answer) =>
        error ? reject(error) : resolve(answer),
      );
    });
}

const createCall =
  (client: Client): Call =>
  async (user) => {
    const { error } = await client.limit('demo', { user });
    if (error) throw error;
  };

/** @returns  µs of this process's CPU time per call */
async function measure({ inATurn, call }: Row): Promise<number> {
  const before = process.cpuUsage();
  for (let calls = 0; calls < CALLS; calls += inATurn)
    await Promise.all(Array.from({ length: inATurn }, (_, at) => call(`user-${calls + at}`)));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / CALLS;
}

function print(rows: readonly Row[]): void {
  const lines = rows.map(({ name, inATurn, us }) => {
    const base = rows.find((row) => row.inATurn === inATurn && row.name === 'grpc-js');
    const ratios = us.map((own, at) => own / (base?.us[at] ?? Number.NaN));
    return [String(inATurn), name, median(us).toFixed(1), median(ratios).toFixed(2)];
  });
  console.log(table(['calls in a turn', 'client', 'CPU µs per call', '÷ grpc-js'], 2, lines));
}
