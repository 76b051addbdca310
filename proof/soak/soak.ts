import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openReady } from '../../test/helpers/connection.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { startWeir } from '../../test/helpers/weir.ts';
import { temporaryFolder, withCleanup } from '../processes/cleanup.ts';
import { openDisk } from './disk.ts';
import { Processes } from './memory.ts';
import { startOperators, TOKEN, type UseSums, writeRules } from './operators.ts';
import { startTraffic, type Traffic } from './traffic.ts';
import { compareTotals, type Totals } from './verify.ts';

const MS_PER_MINUTE = 60_000;
const MAX_FAULT_MS = MS_PER_MINUTE;
/** What operators do may still fail for this long after a fault. */
const RECOVERY_MS = 15_000;
/** The parts of the run at which faults begin. */
const DISK_FULL_AT = 0.35;
const REDIS_STOPPED_AT = 0.65;
/** Memory is compared between these parts of the run. */
const FIRST = [0.2, 0.4] as const;
const LAST = [0.8, 1] as const;

type Medians = ReturnType<Processes['medians']>;

export interface Result {
  readonly processes: Pick<Processes, 'died' | 'controlPeakBytes' | 'controlPeakAtMs'> & {
    readonly first: Medians;
    readonly last: Medians;
  };
  readonly traffic: Traffic;
  readonly totals: Totals;
  readonly uses: readonly UseSums[];
  readonly isDiskFilled: boolean;
  readonly faultSeconds: number;
}

/** Runs the service under load, operators and faults. */
export const soak = (minutes: number, onStep: (step: string) => void): Promise<Result> =>
  withCleanup(async (onEnd) => {
    const lengthMs = minutes * MS_PER_MINUTE;
    const faultMs = Math.min(MAX_FAULT_MS, lengthMs / 8);
    const folder = temporaryFolder('soak', onEnd);
    const rules = join(folder, 'rules');
    mkdirSync(rules);
    writeRules(rules, 0);
    const disk = openDisk(join(folder, 'disk'), onEnd);
    const redis = await startRedis();
    onEnd(() => redis.stop());
    const usageDir = join(disk.path, 'usage');
    const env = {
      ...{ WORKERS: '2', LOG_LEVEL: 'warn', USE_STATSD: 'false', ADMIN_TOKEN: TOKEN },
      ...{ REDIS_URL: redis.url, RULES_PATH: rules, USAGE_DIR: usageDir },
      ...{ RECORD_TO: join(disk.path, 'records'), RECORD_MAX_BYTES: '16777216' },
      ...{ AUDIT_LOG: join(disk.path, 'audit.log'), RESPONSE_RULE_METADATA: 'true' },
    };
    const weir = await startWeir(env, { isPatient: false });
    onEnd(async () => {
      await weir.stop();
      onStep(`the log of the service ends with\n${weir.output().split('\n').slice(-40).join('\n')}`);
    });
    const processes = new Processes(weir);
    onEnd(() => processes.stop());
    let faultyUntilMs = 0;
    const isFaulty = () => performance.now() < faultyUntilMs;
    const traffic = startTraffic(weir.grpcPort);
    onEnd(() => traffic.stop());
    const operators = startOperators({ debugPort: weir.debugPort, folder: rules, isFaulty });
    onEnd(() => operators.stop());
    const startMs = performance.now();
    const until = (part: number) => sleep(Math.max(0, part * lengthMs - (performance.now() - startMs)));
    const fault = async (name: string, begin: () => void, end: () => void): Promise<void> => {
      onStep(name);
      faultyUntilMs = performance.now() + faultMs + RECOVERY_MS;
      begin();
      await sleep(faultMs).finally(end);
    };
    onStep('calls');
    await until(DISK_FULL_AT);
    await fault('the disk is full', disk.fill, disk.free);
    onStep('the disk has room again');
    await until(REDIS_STOPPED_AT);
    await fault('Redis is stopped', redis.pause, redis.resume);
    onStep('Redis continues');
    await until(1);
    await traffic.stop();
    await operators.stop();
    const [first, last] = [processes.medians(...FIRST), processes.medians(...LAST)];
    onStep('comparing usage with the counters');
    const connection = await openReady(redis);
    onEnd(() => connection.disconnect());
    const totals = await compareTotals(connection, weir.debugPort, usageDir);
    const { died, controlPeakBytes, controlPeakAtMs } = processes;
    return {
      processes: { died, controlPeakBytes, controlPeakAtMs, first, last },
      traffic: traffic.sums,
      totals,
      uses: operators.sums,
      isDiskFilled: disk.isOwn,
      faultSeconds: Math.round(faultMs / 1_000),
    };
  });
