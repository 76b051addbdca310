import { createClient } from '../../client/src/index.ts';
import { createGuard } from '../../client/src/middleware/guard.ts';

const target = 'http://localhost:1';
const client = createClient({ target });
afterAll(() => client.close());

test.each<[unknown, string]>([
  [undefined, 'options: expected an object, got undefined'],
  ['localhost:8081', 'options: expected an object, got a string'],
  [{}, 'expected at least one target, or an engine'],
  [{ target, onErorr: 'deny' }, 'onErorr: no such option; did you mean onError?'],
  [{ target, onError: 'reject' }, "onError must be 'allow', 'deny' or 'local', got reject"],
  [{ target, batch: 'no' }, "batch: expected true or false, got 'no'"],
  [{ target, breaker: { failure: 5 } }, 'breaker.failure: no such option; did you mean failures?'],
  [{ target, breaker: { failures: '5' } }, "breaker.failures: expected a number of at least 0, got '5'"],
  [{ target, breaker: true }, 'breaker: expected false or an object with failures, minOpenMs, maxOpenMs, got true'],
  [
    { target, tls: { cert_chain: '-----BEGIN' } },
    'tls.cert_chain: no such option; expected one of ca, cert, key, serverName',
  ],
  [{ target, local: { limit: 5 } }, 'local.limit: no such option; expected one of requests, windowMs'],
  [{ engine: Promise.resolve() }, 'engine: expected an object with decide, health, close, got a promise'],
  [{ target: 'localhost' }, 'got localhost, which has no port'],
  [{ target: 'dns:///weir' }, 'got dns:///weir, which has no port'],
  [{ target: '::1' }, 'got ::1, which has no port'],
  [{ target: ['localhost:1', 'weir'] }, 'got weir, which has no port'],
])('the options %j of a client are refused: %s', (options, message) => {
  expect(() => createClient(options as never)).toThrow(
    new TypeError(
      message.startsWith('got')
        ? `expected a target such as 'localhost:8081' or 'http://localhost:8080', ${message}`
        : message,
    ),
  );
});

test.each(['dns:///weir:8081', 'dns:weir:8081', '[::1]:8081', 'ipv4:10.0.0.1:1,10.0.0.2:1', 'unix:/run/weir.sock'])(
  'the target %s is accepted',
  (grpc) => createClient({ target: grpc }).close(),
);

test.each<[unknown, string]>([
  [{}, 'client: expected an object with limit'],
  [{ client: {}, domain: 'demo' }, 'client: expected an object with limit, got an object'],
  [{ client }, 'domain: expected the name of a domain'],
  [{ client, domain: '' }, "domain: expected the name of a domain, got ''"],
  [{ client, domain: 'demo', keys: () => undefined }, 'keys: no such option; did you mean key?'],
  [{ client, domain: 'demo', key: { user: 'a' } }, 'key: expected a function, got an object'],
  [
    { client, domain: 'demo', trustProxy: true },
    'trustProxy: expected a number of proxies, or a list of their networks, got true',
  ],
  [
    { client, domain: 'demo', headers: 'draft-7' },
    "headers: expected 'ietf', 'legacy', 'both' or 'none', got 'draft-7'",
  ],
  [{ client, domain: 'demo', timeoutMs: 0 }, 'timeoutMs must be a number from 1 to 2147483647, got 0'],
])('the options %j of a middleware are refused: %s', (options, message) => {
  expect(() => createGuard(options as never)).toThrow(new TypeError(message));
});
