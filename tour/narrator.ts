import { createInterface } from 'node:readline/promises';

/** Prints the text of steps, and waits for the reader. */
export interface Narrator {
  /** The title of a step. */
  title(text: string): void;
  say(text: string): void;
  /** Prints a command, as the reader could type it, and its output. */
  show(command: string, printed: string): void;
  /** Prints lines unchanged. */
  list(text: string): void;
  /** Waits for Enter; returns at once with --auto. */
  pause(): Promise<void>;
  close(): void;
}

const WIDTH = 100;

/** Prints to the terminal, in lines of at most 100 characters. */
export function createNarrator(isAuto: boolean): Narrator {
  const print = (text: string): void => void process.stdout.write(`${text}\n`);
  const input = isAuto ? undefined : createInterface({ input: process.stdin, output: process.stdout });
  input?.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  return {
    title: (text) => print(`\n── ${text} ${'─'.repeat(Math.max(0, WIDTH - 4 - text.length))}\n`),
    say: (text) => print(`${wrapped(text)}\n`),
    show: (command, printed) => print(`  $ ${command}\n${indented(printed)}\n`),
    list: (text) => print(`${indented(text)}\n`),
    pause: async () => {
      if (input) await input.question('  Press Enter to go on. ').catch(() => '');
    },
    close: () => input?.close(),
  };
}

const indented = (text: string): string => text.trimEnd().replace(/^/gm, '    ');

function wrapped(text: string): string {
  const lines = [''];
  for (const word of text.split(/\s+/)) {
    const line = lines.at(-1) ?? '';
    if (line === '') lines[lines.length - 1] = word;
    else if (line.length + 1 + word.length <= WIDTH) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines.join('\n');
}
