import type { RefObject } from 'preact';
import { useMemo, useRef } from 'preact/hooks';

/** The height of a line, px: see style.css. */
const LINE = 24;

interface CodeFieldProps {
  readonly label: string;
  readonly text: string;
  /** The number of visible lines, until the user resizes the field. */
  readonly rows: number;
  /** Lines with a problem, counted from 1. */
  readonly marked: ReadonlyMap<number, 'error' | 'warning'>;
  /** The id of the element that lists the problems. */
  readonly describedBy: string;
  readonly isWrong: boolean;
  readonly field: RefObject<HTMLTextAreaElement | null>;
  readonly onInput: (text: string) => void;
}

/** A text area with line numbers. Tab leaves it, so that keyboard users reach the next element. */
export function CodeField({ label, text, rows, marked, describedBy, isWrong, field, onInput }: CodeFieldProps) {
  const gutter = useRef<HTMLDivElement>(null);
  const lines = countLines(text);
  const numbers = useMemo(() => Array.from({ length: lines }, (_, at) => at + 1).join('\n'), [lines]);
  return (
    <div class="code-field">
      <div class="gutter" aria-hidden="true" style={{ width: `calc(${String(lines).length}ch + 24px)` }}>
        <div ref={gutter}>
          {Array.from(marked, ([line, severity]) => (
            <span key={line} class={severity} style={{ top: `${(line - 1) * LINE}px` }} />
          ))}
          <pre>{numbers}</pre>
        </div>
      </div>
      <textarea
        ref={field}
        aria-label={label}
        aria-describedby={describedBy}
        aria-invalid={isWrong}
        rows={rows}
        wrap="off"
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        value={text}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
        onScroll={({ currentTarget }) => {
          if (gutter.current) gutter.current.style.transform = `translateY(${-currentTarget.scrollTop}px)`;
        }}
      />
    </div>
  );
}

export function countLines(text: string): number {
  let lines = 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

/** Moves the cursor to a position in the text, and scrolls it into view. */
export function showPlace(field: HTMLTextAreaElement, line: number, column: number): void {
  let start = 0;
  for (let at = 1; at < line; at++) {
    const end = field.value.indexOf('\n', start);
    if (end < 0) break;
    start = end + 1;
  }
  const end = field.value.indexOf('\n', start);
  const last = end < 0 ? field.value.length : end;
  field.focus();
  field.setSelectionRange(Math.min(start + column - 1, last), last);
  field.scrollTop = Math.max((line - 4) * LINE, 0);
}
