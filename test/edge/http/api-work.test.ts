import '../../helpers/realm.ts';
import { apiRoutes } from '../../../src/edge/http/api.ts';
import { type HttpServer, startHttpServer } from '../../../src/edge/http/server.ts';
import type { Overload } from '../../../src/edge/overload/overload.ts';
import { createRlsService, type RlsService } from '../../../src/edge/rls/service.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { crossedRules, crossing } from '../../helpers/patterns.ts';
import { type RawClient, rawClient } from '../../helpers/raw-client.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { mostStepsInATurn } from '../../helpers/turns.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
${crossedRules}
`);
const decisions = createRlsService(deciderOf(rules), extrasOf(), { answered: () => {}, failed: () => {} });

let server: HttpServer;
let clients: RawClient[];
let onDecision: () => void;
/** That each client has received. */
let answers: number;
let overload: Overload;
const service: RlsService = {
  shouldRateLimit(request, caller, reply) {
    onDecision();
    return decisions.shouldRateLimit(request, caller, reply);
  },
};
beforeEach(async () => {
  onDecision = () => {};
  answers = 0;
  overload = overloadOf();
  const routes = apiRoutes(service, () => ({ ready: true, reasons: [] }), overload);
  server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, () => {}, {});
  clients = await Promise.all(Array.from({ length: 20 }, () => rawClient(server.port)));
});
afterEach(async () => {
  for (const { socket } of clients) socket.destroy();
  await server.close(0);
  overload.close();
});

function send(client: RawClient, value: string): void {
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'path', value }] }] });
  client.write(`POST /json HTTP/1.1\r\nhost: weir\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
}

/** The most decisions in one turn, while each client asks for one. */
const mostInATurn = (value: string): Promise<number> =>
  mostStepsInATurn(async (step) => {
    onDecision = step;
    answers++;
    for (const client of clients) send(client, value);
    await Promise.all(clients.map((client) => client.receives('200 OK', answers)));
  });

test('a turn of /json decides fewer requests whose values are searched for patterns', async () => {
  await mostInATurn(crossing(0)); // all connections are accepted
  expect(await mostInATurn(crossing(19))).toBeLessThanOrEqual(4); // 390 units each, and each adds 63 to the next turn
});

test('a request of /json whose values are too long for the patterns is refused with the reason', async () => {
  const [client] = clients as [RawClient];
  send(client, crossing(36));
  await client.receives('400 Bad Request');
  expect(client.received()).toContain(
    'x-weir-reason: the values of the request are too long for the number of patterns',
  );
});
