import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { runCommand } from '../../helpers/command.ts';
import { start } from '../../helpers/process.ts';
import { MAIN } from '../../helpers/weir.ts';

const RULES = `
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 1 } # whose windows do not end during the test
`;
const ADDRESS = '203.0.113.7';
const OWN = ['--rule', 'edge.remote_address', '--port', '443'];

let services: readonly Administered[];
beforeAll(async () => {
  services = await Promise.all([startAdministered(RULES), startAdministered(RULES)]);
  const descriptors = [{ entries: [{ key: 'remote_address', value: ADDRESS }] }];
  for (const { ask } of services) for (let left = 7; left > 0; left--) await ask({ domain: 'edge', descriptors });
});
afterAll(() => Promise.all(services.map((one) => one.stop())));

const targets = (): readonly string[] => services.map(({ weir }) => `127.0.0.1:${weir.debugPort}`);
const weir = async (...args: readonly string[]): Promise<string> => {
  const { stdout, stderr } = await runCommand(args);
  return stdout + stderr;
};

test('weir offenders lists addresses with their refusals and limit', async () => {
  const [target = ''] = targets();
  const access = ['--target', target, '--token', 'token'];
  expect(await weir('offenders', '--times', '6', ...access)).toBe(
    `${ADDRESS}  6 refused in the last minute  edge.remote_address: 1 per year\n`,
  );
  expect(await weir('offenders', ...access)).toBe('no address was refused 10 times its limit in the last minute\n');
});

test('weir guard adds the refusals of several services, and says why it drops nothing', async () => {
  const asked = targets().flatMap((one) => ['--target', one]);
  const guard = await start(process.execPath, [MAIN, 'guard', ...OWN, ...asked, '--token', 'token']);
  try {
    await guard.waitFor('"event":"skip"');
    const [line = ''] = guard.output().match(/^.*"event":"skip".*$/m) ?? [];
    expect(JSON.parse(line)).toEqual({
      ...{ at: expect.any(String), event: 'skip', address: ADDRESS, reason: 'it is not connected to this machine' },
      ...{ rule: 'edge.remote_address', refused: 12, limit: '1 per year', dryRun: true },
    });
  } finally {
    await guard.stop();
  }
});

test('weir guard says once that no service answers, and goes on', async () => {
  const guard = await start(process.execPath, [MAIN, 'guard', ...OWN, '--target', '127.0.0.1:1']);
  await guard.waitFor('"event":"fail"');
  expect(await guard.stop()).toMatchObject({ code: 0 });
  expect(guard.output().match(/"reason":".*ECONNREFUSED.*"/g)).toHaveLength(1);
});

test.each([
  [['--port', '443'], "required option '--rule <path>' not specified"],
  [['--rule', 'edge.remote_address'], "required option '--port <port>' not specified"],
  [[...OWN, '--port', '0'], 'expected a port from 1 to 65535'],
  [[...OWN, '--interface', 'eth0/1'], 'expected the name of a network interface, such as eth0'],
  [[...OWN, '--allow', 'all'], 'expected none, or a block of IP addresses'],
  [[...OWN, '--max-time', '1h'], 'expected at most 10m'],
  [[...OWN, '--enforce'], '--enforce requires --allow: name the addresses of balancers and proxies, or none'],
] as const)('weir guard refuses %j', async (args, message) => {
  expect(await weir('guard', ...args)).toContain(message);
});
