/** The image as `docker run` starts it: with its own entrypoint, user, settings and rules, and counters in memory. */
import './stay-alive.ts';
import { report, startContainer } from '../../helpers/pod.ts';
import { untilHealthy } from './probe.ts';

const { IMAGE_ROOT = '' } = process.env;
const USER = 65_532;

async function run(...command: readonly string[]): Promise<object> {
  const container = await startContainer({ root: IMAGE_ROOT, command, user: USER });
  const { code } = await container.exited;
  return { code, output: container.output().replace(/^\{[^}]*\}\n/, '') }; // removes bubblewrap's output
}

const healthBefore = await run('/usr/bin/healthcheck');
const weir = await startContainer({
  root: IMAGE_ROOT,
  command: ['/usr/bin/weir'],
  user: USER,
  env: { NODE_ENV: 'production' },
});
await untilHealthy();
const health = await run('/usr/bin/healthcheck');
const answer = await run('/usr/bin/weir', 'ask', 'demo', 'api_key=k1');
const version = await run('/usr/bin/weir', '--version');
const write = await run('/usr/bin/node', '-e', "require('fs').writeFileSync('/app/x', '')");
const exit = await weir.stop();
const workers = await startContainer({
  root: IMAGE_ROOT,
  command: ['/bin/ratelimit', '--ignored'],
  user: USER,
  env: { WORKERS: '2', REDIS_URL: '127.0.0.1:6379', FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' },
});
await workers.waitFor('  gRPC ');
const workersExit = await workers.stop();
report({ healthBefore, health, answer, version, write, exit, workers: workers.output(), workersExit });
