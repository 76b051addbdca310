import { writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';
import { parseArgs } from 'node:util';
import { transports } from '../src/transport/transports.ts';
import { startGenerator } from './generator/generator.ts';
import { withoutEach } from './levers.ts';
import { type MeasureOptions, measureShape, type Row } from './measure.ts';
import { type Shape, shapes } from './shapes.ts';
import { limitador, reference, type Subject, weirOn } from './subjects.ts';
import { toMarkdown } from './table.ts';

const ownTransports = Object.keys(transports).join(',');

const usage = `Usage: npm run bench -- [options]

Measures what a decision costs, side by side with other services where the environment names their programs:

  REFERENCE_BIN    envoyproxy/ratelimit
  LIMITADOR_BIN    limitador-server

  --seconds N        how long calls are counted in one round (3)
  --rounds N         rounds, of which the median is told (3)
  --transports LIST  values of GRPC_TRANSPORT, with commas between them (${ownTransports})
  --levers           Weir alone, with each thing that makes it cheaper switched off in turn
  --only TEXT        only rows whose name contains it
  --json FILE        write all numbers there, too
  --help             this text

Exits with 1 when a call failed or was answered wrongly.
`;

const options = {
  seconds: { type: 'string', default: '3' },
  rounds: { type: 'string', default: '3' },
  transports: { type: 'string', default: ownTransports },
  levers: { type: 'boolean', default: false },
  only: { type: 'string', default: '' },
  json: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const;

bench().catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});

async function bench(): Promise<void> {
  const { values } = parseArgs({ options });
  if (values.help) {
    process.stdout.write(usage);
    return;
  }
  const measuring = { roundMs: count('--seconds', values.seconds) * 1000, rounds: count('--rounds', values.rounds) };
  const chosen = shapes.filter(({ name }) => name.includes(values.only));
  if (chosen.length === 0) throw new Error(`--only must be part of a row's name, got '${values.only}'`);
  const own = (values.levers ? ['h2'] : values.transports.split(',')).map((transport) => weirOn(transport));
  const subjects = [...own, ...(values.levers ? withoutEach() : peers())];
  const rows: Row[] = [];
  try {
    await measureAll(chosen, subjects, measuring, rows);
  } finally {
    console.log(toMarkdown(rows, own)); // those before a failure, too
  }
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(toJson(rows, measuring), null, 2)}\n`);
}

/** Those that the environment names. */
function peers(): readonly Subject[] {
  const { REFERENCE_BIN, LIMITADOR_BIN } = process.env;
  return [...(REFERENCE_BIN ? [reference(REFERENCE_BIN)] : []), ...(LIMITADOR_BIN ? [limitador(LIMITADOR_BIN)] : [])];
}

/** Adds a row for each shape as soon as it is measured. */
async function measureAll(
  chosen: readonly Shape[],
  subjects: readonly Subject[],
  measuring: MeasureOptions,
  rows: Row[],
): Promise<void> {
  const generator = startGenerator();
  try {
    for (const shape of chosen) {
      console.error(`${shape.name} …`);
      rows.push(await measureShape(shape, subjects, generator, measuring));
    }
  } finally {
    generator.stop();
  }
}

const toJson = (rows: readonly Row[], { roundMs, rounds }: MeasureOptions) => ({
  machine: { cpu: cpus()[0]?.model, cores: cpus().length, kernel: release(), node: process.version },
  roundMs,
  rounds,
  rows: rows.map(({ shape, callsPerSecond, measured }) => ({
    shape,
    callsPerSecond,
    services: [...measured].map(([{ name }, measurement]) => ({ name, ...measurement })),
  })),
});

function count(option: string, written: string): number {
  if (/^[1-9]\d{0,2}$/.test(written)) return Number(written);
  throw new Error(`${option} must be a whole number from 1 to 999, got '${written}'`);
}
