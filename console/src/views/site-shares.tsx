import type { ListedShare, SitePortion } from '../../../src/parts/sites/answers.ts';
import { get } from '../api.ts';
import { duration, exact, grouped } from '../format.ts';
import { ShareBar } from '../parts/share-bar.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { Descriptor, Empty, Failure, RuleLink, State, type StateName, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { seesValues } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

/** `0 %`, `4.2 %`. */
export const percentOf = (ratio: number): string => `${Math.round(ratio * 1_000) / 10} %`;

/** Each site's share of recently exchanged limits. */
export function SiteShares({ own }: { readonly own: string }) {
  const { data, error } = usePoll(() => get('sites/limits', { count: '20' }), seesValues.value ? [] : undefined, 1_000);
  return (
    <section class="panel">
      <h2>Shares of limits</h2>
      {!seesValues.value && <SignInNeeded what="This list" />}
      <Failure message={error?.message} />
      {data?.limits.length === 0 && data.more === 0 && (
        <Empty title="Each site has its equal part of every limit.">
          <p>A limit is listed while a site has less than a quarter of its part left, or refuses hits.</p>
        </Empty>
      )}
      {data && data.limits.length > 0 && (
        <>
          <p class="dim">A bar shows the share of a site, the filled part its use, and the line its equal part.</p>
          <div class="shared-limits">
            {data.limits.map((one) => (
              <SharedLimit key={`${one.rule} ${one.limit} ${JSON.stringify(one.entries)}`} one={one} own={own} />
            ))}
          </div>
        </>
      )}
      {data && data.more > 0 && <p class="dim">At least {exact(data.more)} more are not listed.</p>}
    </section>
  );
}

function SharedLimit({ one, own }: { readonly one: ListedShare; readonly own: string }) {
  const { rule, name, entries, sites, leftMs, isBucket, left } = one;
  const longest = Math.max(...sites.map(({ base, share, used = 0 }) => Math.max(base, share, used)), 1);
  const columns: readonly Column<SitePortion>[] = [
    {
      name: 'Site',
      isHead: true,
      cell: ({ site, isLost }) => (
        <>
          <Value text={site} /> {site === own && <span class="dim">(this one)</span>}
          {isLost && <span class="dim">(lost)</span>}
        </>
      ),
    },
    {
      name: isBucket ? 'Burst, used' : 'Share, used',
      class: 'share-bar',
      cell: (portion) => <PortionBar portion={portion} scale={longest} />,
    },
    { name: 'Share', class: 'number', cell: ({ share }) => exact(share) },
    { name: 'Moved', class: 'number', cell: ({ moved }) => signed(moved) },
    {
      name: 'Used',
      class: 'number',
      cell: ({ used }) => (used === undefined ? <span class="dim">unknown</span> : exact(used)),
    },
    { name: 'As of', class: 'number', cell: (portion) => <Age portion={portion} isOwn={portion.site === own} /> },
  ];
  return (
    <div class="shared-limit">
      <div class="row">
        <div>
          <RuleLink path={rule} text={name ?? rule} /> <Descriptor entries={entries} />
        </div>
        <ModeState one={one} />
      </div>
      <p class="dim">
        {grouped(one.limit)}; this site has {exact(left)} left, {isBucket ? 'moved hits expire' : 'the window ends'} in{' '}
        {duration(leftMs)}
      </p>
      <Table rows={sites} columns={columns} keyOf={({ site }) => site} />
    </div>
  );
}

/** The mode of the limit, and its measured and declared errors. */
function ModeState({ one: { mode, hasFallenBack, errorRatio, errorBound } }: { readonly one: ListedShare }) {
  const isBeyond = (errorRatio ?? 0) > errorBound;
  const [is, text]: readonly [StateName, string] =
    mode === 'escrow' ? ['plain', 'Escrow'] : hasFallenBack ? ['warn', 'Fell back to escrow'] : ['good', 'Optimistic'];
  return (
    <div>
      <span class={isBeyond ? 'bad-text' : 'dim'}>
        {errorRatio === undefined ? 'error unknown' : `${percentOf(errorRatio)} over`}, declared {percentOf(errorBound)}
      </span>{' '}
      <State is={is}>{text}</State>
    </div>
  );
}

const signed = (moved: number): string => (moved > 0 ? `+${exact(moved)}` : moved < 0 ? `\u2212${exact(-moved)}` : '0');

/** How old the known use of a site is. */
function Age({ portion: { usedMsAgo }, isOwn }: { readonly portion: SitePortion; readonly isOwn: boolean }) {
  if (isOwn || (usedMsAgo !== undefined && usedMsAgo < 1_500)) return <>now</>;
  return usedMsAgo === undefined ? <span class="dim">–</span> : <>{duration(usedMsAgo)} ago</>;
}

interface PortionBarProps {
  readonly portion: SitePortion;
  readonly scale: number;
}

/** The share, the usage within and beyond it, and the base. */
function PortionBar({ portion: { site, base, share, used: known }, scale }: PortionBarProps) {
  const used = known ?? 0;
  const within = Math.min(used, Math.max(share, 0));
  const use = known === undefined ? 'use unknown' : `${exact(known)} used`;
  const text = `${site}: a share of ${exact(share)}, ${use}; its equal part is ${exact(base)}`;
  const more = { kind: 'beyond', from: within, hits: used - within } as const;
  return <ShareBar scale={scale} room={share} used={within} more={more} line={base} text={text} />;
}
