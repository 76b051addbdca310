import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { every, monotonicMs } from '../../base/clock.ts';
import { rfc3339 } from '../../base/times.ts';
import { failingText } from '../../operate/observe/work-state.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';
import { start } from '../../serve/parts/start-up.ts';
import type { Settings } from '../../settings/settings.ts';
import { RECORDING_VERSION } from '../lab/record/format.ts';
import { withReceipts } from '../lab/record/receipts.ts';
import { RecordingFiles } from './files.ts';
import { Recorder } from './recorder.ts';

/** The recording of one process. */
export interface RecordingState {
  /** Its end. */
  readonly untilMs: number;
  /** `since … because …`: requests are missing, since they cannot be written. */
  readonly failing: string | undefined;
}

/** Sets the end of the recording, if given. */
interface RecordQuestion {
  /** Milliseconds since the epoch. */
  readonly untilMs?: number;
}

const FLUSH_INTERVAL_MS = 1_000;

/** The mode of a new directory: recordings contain what callers sent. */
const OWNER_ONLY = 0o700;

/** Records the requests that this process answers. @throws CannotStart if the directory cannot be created */
export const openRecording =
  (options: NonNullable<Settings['recording']>): OpenDeciderPart =>
  async ({ decider, serviceObserver }, _settings, { clock, log, background, requestClock }) => {
    const { directory, sample, maxPerSecond, hashKey, settings, fileBytes, maxBytes, isFromStart } = options;
    if (!requestClock) throw new Error('a process that records has a clock for requests');
    await start('RECORD_TO', directory, () => mkdir(directory, { recursive: true, mode: OWNER_ONLY }));
    const stream = randomUUID();
    const name = `${rfc3339(clock()).replace(/[-:]|\.\d+/g, '')}-${stream.slice(0, 8)}`;
    const state = background.add('recording', 'recording requests');
    const recorder = new Recorder({
      decider,
      clock: requestClock,
      maxPerSecond,
      hashKey,
      header: { version: RECORDING_VERSION, stream, sample, hashed: hashKey !== undefined, settings },
      openFiles: (head) =>
        new RecordingFiles({
          directory,
          name,
          fileBytes,
          maxBytes,
          head,
          clock,
          onFailure: (error) => state.failed(error),
          onWritten: () => state.works(),
          onRemoved: (path) => log.warn(`removed ${path}, the oldest recording, for RECORD_MAX_BYTES`),
        }),
      onRecorded: serviceObserver.recorded,
      untilMs: isFromStart ? Number.POSITIVE_INFINITY : 0,
      monotonicMs,
      later: (run) => void setImmediate(run),
    });
    const stopFlushing = every(FLUSH_INTERVAL_MS, () => recorder.flush());
    return {
      decider: settings.BACKEND_TYPE === 'memory' ? decider : withReceipts(decider), // these decide by their own clocks
      service: (inner) => recorder.service(inner),
      answered: (request, answer, caller) => recorder.answered(request, answer, caller.timeoutMs),
      asked: ({ untilMs }: RecordQuestion): RecordingState => ({
        untilMs: recorder.record(untilMs),
        failing: state.failing && failingText(state.failing),
      }),
      async close() {
        stopFlushing();
        await recorder.close();
      },
    };
  };
