import type { ExplainedLimit } from '../../../src/parts/lab/answers/explain.ts';
import { algorithmText, amount, duration, grouped, localTimes } from '../format.ts';
import { Drawing } from '../parts/drawing.tsx';
import { RulePlace, State } from '../parts/texts.tsx';
import { linkTo } from '../route.ts';
import { Adapted } from './adapted.tsx';
import { SharedChildren } from './shared-children.tsx';

interface LimitExplainedProps {
  readonly limit: ExplainedLimit;
  readonly hits: number;
  /** Whether it is the only limit: the answer to the request says when it passes. */
  readonly isOnly: boolean;
}

/** A limit with the state of its counter, and the sum that decides. */
export function LimitExplained({ limit, hits: asked, isOnly }: LimitExplainedProps) {
  const { code, before, drawing, shadow, rule, file, line, cost: hits = asked } = limit;
  const count = (value: number): string => amount(value, before?.currency);
  // the reason for an adaptive limit is shown below
  const [sum = ''] = limit.arithmetic?.split(before?.adapted?.why ?? '\n') ?? [];
  const arithmetic = localTimes(grouped(sum.replace(/[:,] $/, '')));
  const isOver = code === 'OVER_LIMIT';
  const text = `${count(before?.used ?? 0)} used, ${count(hits)} requested: ${arithmetic}`;
  return (
    <article class="limit-explained">
      <p>
        {code && (
          <State is={isOver ? (shadow ? 'warn' : 'bad') : 'good'}>
            {isOver ? (shadow ? 'Over, in shadow mode' : 'Over the limit') : 'Has room'}
          </State>
        )}{' '}
        <strong>{grouped(limit.limit.replace(/ by \w+(?=$|,)/, ''))}</strong>{' '}
        <span class="dim">{algorithmText(limit.algorithm)}</span> <a href={linkTo('rule', { path: rule })}>{rule}</a>
        {file !== undefined && (
          <span class="dim">
            {' '}
            <RulePlace file={file} line={line} />
          </span>
        )}
      </p>
      {arithmetic !== '' && (
        <p>
          <code class="arithmetic">{arithmetic}</code> <span class="dim">{wordsFor(arithmetic)}</span>
        </p>
      )}
      {before && !drawing && (
        <p class="dim">
          {count(before.used)} used, {before.onHold ? `${count(before.onHold)} of it on hold, ` : ''}
          {count(before.remaining)} remaining
          {before.resetsInMs > 0 && `, resets in ${duration(before.resetsInMs)}`}
        </p>
      )}
      {drawing && before && (
        <Drawing
          drawing={drawing}
          hits={hits}
          isOver={isOver}
          text={text}
          used={before.used}
          resetsInMs={before.resetsInMs}
          onHold={before.onHold}
          oldestMs={before.oldestMs}
          currency={before.currency}
        />
      )}
      {before?.adapted && <Adapted adapted={before.adapted} />}
      {limit.children && <SharedChildren children={limit.children} />}
      <Notes limit={limit} isOver={isOver && !isOnly} />
    </article>
  );
}

function Notes({ limit, isOver }: { readonly limit: ExplainedLimit; readonly isOver: boolean }) {
  const { source, failure, retryAfterMs, soft, replacedBy, active, inactive, before } = limit;
  const notes = [
    replacedBy && `Replaced by ${replacedBy.join(', ')}.`,
    active !== undefined && `Active ${active}.`,
    inactive && 'Does not apply at this time.',
    source !== undefined && source !== 'backend' && `Answered from ${sourceTexts[source]}.`,
    failure !== undefined && `The counter cannot be read: ${failure}.`,
    before?.blockedMs !== undefined && `Blocked for ${duration(before.blockedMs)}.`,
    soft && 'Passes on the soft part of the limit.',
    isOver && retryAfterMs === null && 'The same request never passes by waiting.',
    isOver && typeof retryAfterMs === 'number' && `The same request passes in ${duration(retryAfterMs)}.`,
  ].filter(Boolean);
  return notes.length > 0 ? <p class="dim">{notes.join(' ')}</p> : null;
}

const sourceTexts = {
  lease: 'a lease of this process',
  refusal: 'a remembered refusal',
  allow: 'on_store_failure: allow',
  deny: 'on_store_failure: deny',
  local: 'on_store_failure: local',
} as const;

/** The comparison in words: used and requested hits against the limit. */
function wordsFor(arithmetic: string): string {
  if (arithmetic.includes('>')) return 'used and requested together exceed the limit';
  return arithmetic.includes('≤') ? 'used and requested are within the limit' : '';
}
