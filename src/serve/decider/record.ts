import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { every, monotonicMs } from '../../base/clock.ts';
import { rfc3339 } from '../../base/times.ts';
import type { Decider } from '../../engine/decide/decide.ts';
import { RECORDING_VERSION } from '../../lab/record/format.ts';
import type { WorkState } from '../../operate/observe/work-state.ts';
import { RecordingFiles } from '../../operate/record/files.ts';
import { Recorder } from '../../operate/record/recorder.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { type Part, start } from '../parts/start-up.ts';

/** Records the requests that this process answers. */
export interface Recording extends Part {
  readonly recorder: Recorder;
  readonly state: WorkState;
}

const FLUSH_INTERVAL_MS = 1_000;

/** The mode of a new directory: recordings contain what callers sent. */
const OWNER_ONLY = 0o700;

interface RecordedDecider {
  readonly decider: Decider;
  readonly onRecorded: (requests: number, dropped: number) => void;
}

/** @throws CannotStart if the directory cannot be created */
export async function openRecording(
  options: NonNullable<Settings['recording']>,
  { decider, onRecorded }: RecordedDecider,
  { clock, background, requestClock }: ProcessContext,
): Promise<Recording> {
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
      }),
    onRecorded,
    untilMs: isFromStart ? Number.POSITIVE_INFINITY : 0,
    monotonicMs,
    later: (run) => void setImmediate(run),
  });
  const stopFlushing = every(FLUSH_INTERVAL_MS, () => recorder.flush());
  return {
    recorder,
    state,
    async close() {
      stopFlushing();
      await recorder.close();
    },
  };
}
