import type { ComponentChildren } from 'preact';
import type { ApiError } from '../api.ts';
import { duration, exact, time, visible, zone } from '../format.ts';
import { nowMs, ruleFile } from '../live.ts';
import { linkTo, type Pair } from '../route.ts';

/** Tables cut longer texts of callers. */
const SHOWN_CHARACTERS = 120;

/** A caller's text: never markup, and isolated from the direction of surrounding text. */
export function Value({ text, whole = false }: { readonly text: string; readonly whole?: boolean }) {
  const isCut = !whole && text.length > SHOWN_CHARACTERS;
  const shown = visible(isCut ? text.slice(0, SHOWN_CHARACTERS) : text);
  return (
    <bdi class="value">
      {text === '' ? <i>empty</i> : shown}
      {isCut && <span class="dim"> … {text.length.toLocaleString('en')} characters</span>}
    </bdi>
  );
}

/** The line of a rule in its file, below the folder of all rule files. */
export const RulePlace = ({ file, line }: { readonly file: string; readonly line?: number | undefined }) => (
  <>
    {ruleFile(file)}
    {line !== undefined && `:${line}`}
  </>
);

/** The path of a rule, as a link to its page. */
export const RuleLink = ({ path, text = path }: { readonly path: string; readonly text?: string }) => (
  <a href={linkTo('rule', { path })}>
    <Value text={text} />
  </a>
);

/** `user=alice, path=/login`. */
export function Descriptor({
  entries,
  whole = false,
}: {
  readonly entries: readonly Pair[];
  readonly whole?: boolean;
}) {
  return (
    <span class="descriptor">
      {entries.map(({ key, value }, at) => (
        <span key={at}>
          {at > 0 && <span class="dim">, </span>}
          <span class="dim">
            <Value text={key} />=
          </span>
          <Value text={value} whole={whole} />
        </span>
      ))}
    </span>
  );
}

/** The domain of a descriptor, below it in a table. */
export function OfDomain({ domain }: { readonly domain: string }) {
  return (
    <div class="dim">
      domain <Value text={domain} />
    </div>
  );
}

/** A descriptor, or its hash if values are hashed. */
export function DescriptorOrHash({
  entries,
  descriptor,
}: {
  readonly entries?: readonly Pair[];
  readonly descriptor: string;
}) {
  return entries ? <Descriptor entries={entries} /> : <Value text={descriptor} />;
}

interface FactProps {
  readonly name: string;
  readonly class?: string | undefined;
  readonly children: ComponentChildren;
}

/** An item of a list of facts or figures. */
export function Fact({ name, class: kind, children }: FactProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={kind}>{children}</dd>
    </div>
  );
}

export type StateName = 'good' | 'bad' | 'warn' | 'plain';

/** A state in words, repeated by a colour. */
export function State({ is, children }: { readonly is: StateName; readonly children: ComponentChildren }) {
  return <span class={`state ${is}`}>{children}</span>;
}

/** A time in the reader's zone, with its age. */
export function Time({ atMs }: { readonly atMs: number }) {
  const ageMs = Math.max(nowMs.value - atMs, 0);
  return (
    <time dateTime={new Date(atMs).toISOString()} title={`${new Date(atMs).toISOString()}; shown in ${zone}`}>
      {time(atMs)} <span class="dim">({ageMs < 1_500 ? 'now' : `${duration(ageMs)} ago`})</span>
    </time>
  );
}

/** Replaces an empty table or list, with a hint at what to do next. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** A note that counts are estimates, if only a sample was counted. @param oneIn  1: everything was counted */
export function Estimates({ oneIn, confidence }: { readonly oneIn: number; readonly confidence: number }) {
  if (oneIn === 1) return null;
  return (
    <p class="dim">
      Counts are estimates: one hit in {oneIn} was counted. Each bound holds with a probability of {confidence * 100} %.
    </p>
  );
}

/** The possible error of a count; nothing if it is exact. */
export function Bounds({ tooHighBy, tooLowBy = 0 }: { readonly tooHighBy: number; readonly tooLowBy?: number }) {
  if (tooHighBy === 0 && tooLowBy === 0) return null;
  const low = tooLowBy > 0 && `${exact(tooLowBy)} too low`;
  const high = tooHighBy > 0 && `${exact(tooHighBy)} too high`;
  return <div class="dim">at most {[high, low].filter(Boolean).join(', ')}</div>;
}

/** Why something cannot be shown. @param meaning  what it means that the store does not answer, if that is the reason */
export const storeFailure = (error: ApiError | undefined, meaning: string): string | undefined =>
  error?.status === 503 ? `The store does not answer (${error.message}). ${meaning}` : error?.message;

export function Failure({ message }: { readonly message: string | undefined }) {
  if (message === undefined) return null;
  return (
    <p class="notice bad" role="alert">
      {message}
    </p>
  );
}
