import type { SiteList } from '../../../src/operate/answers/sites.ts';
import { get } from '../api.ts';
import { duration, exact, millis } from '../format.ts';
import { type Column, Table } from '../parts/table.tsx';
import { Empty, Fact, Failure, State, type StateName, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { percentOf, SiteShares } from './site-shares.tsx';

type Peer = SiteList['peers'][number];

/** The sites that share limits, with the state and shares of each. */
export function Sites() {
  const { data, error } = usePoll(() => get('sites'), [], 1_000);
  const isAlone = error?.status === 404;
  return (
    <>
      <h1>Sites</h1>
      {isAlone && (
        <Empty title="This is the only site.">
          <p>
            <code>SITE</code> and <code>SITE_PEERS</code> name sites that share limits; <code>sites</code> in a rule
            shares one.
          </p>
        </Empty>
      )}
      {error && !isAlone && <Failure message={error.message} />}
      {data && (
        <>
          <Problems list={data} />
          <Summary list={data} />
          {data.peers.length > 0 && <Exchanges list={data} />}
          <SiteShares own={data.site} />
        </>
      )}
    </>
  );
}

/** The problems that an operator should see first. */
function Problems({ list: { peers, lost, errorRatio, errorBound } }: { readonly list: SiteList }) {
  const cutOff = peers.filter(({ state }) => state === 'cut_off');
  const untimely = peers.filter(({ untimely: loans }) => loans > 0);
  return (
    <>
      {errorRatio > errorBound && (
        <p class="notice bad">
          In the last minute a limit was exceeded by {percentOf(errorRatio)}; its rule declares {percentOf(errorBound)}.
          Was the limit lowered, or do callers report hits that they have already used?
        </p>
      )}
      {lost.length > 0 && (
        <p class="notice warn">
          <code>SITE_LOST</code> names {lost.join(', ')}: the other sites divide its part of each limit. Start it again
          only after all of them have been started without it.
        </p>
      )}
      {cutOff.map(({ site, silentMs, problem }) => (
        <div key={site} class="notice bad">
          <p>
            Site <Value text={site} />{' '}
            {silentMs < 0 ? 'has never answered' : `has not answered for ${duration(silentMs)}`}. Each site continues
            with its present share, and from the next window with its equal part of each limit. The part of{' '}
            <Value text={site} /> stays reserved for it: it may be alive.
          </p>
          {problem !== '' && (
            <p>
              <Value text={problem} />
            </p>
          )}
        </div>
      ))}
      {untimely.map(({ site, untimely: loans }) => (
        <p key={site} class="notice warn">
          {exact(loans)} loans of <Value text={site} /> were not accepted: they came too late, or the clocks of the two
          sites are more than a second apart.
        </p>
      ))}
    </>
  );
}

function Summary({ list: { site, sites, lost, peers, errorRatio, errorBound } }: { readonly list: SiteList }) {
  const cutOff = peers.filter(({ state }) => state === 'cut_off').length;
  const slowest = Math.max(...peers.map(({ roundTripMs }) => roundTripMs), 0);
  return (
    <section class="panel">
      <dl class="figures">
        <Fact name="This site" class="large">
          <Value text={site} />
        </Fact>
        <Fact name="Sites cut off" class={cutOff > 0 ? 'bad' : undefined}>
          <span class="large">{cutOff}</span> <span class="dim">of {sites.length - lost.length}</span>
        </Fact>
        <Fact name="Slowest exchange">
          <span class="large">{millis(slowest)}</span>
        </Fact>
        <Fact name="Error, last minute" class={errorRatio > errorBound ? 'bad' : undefined}>
          <span class="large">{percentOf(errorRatio)}</span> <span class="dim">declared {percentOf(errorBound)}</span>
        </Fact>
      </dl>
    </section>
  );
}

const stateTexts: Readonly<Record<Peer['state'], readonly [StateName, string]>> = {
  in_step: ['good', 'In step'],
  cut_off: ['bad', 'Cut off'],
  idle: ['plain', 'Idle'],
};

const agoText = (ms: number): string => (ms < 0 ? 'never' : ms < 1_500 ? 'now' : `${duration(ms)} ago`);

const exchangeColumns: readonly Column<Peer>[] = [
  { name: 'Site', isHead: true, cell: ({ site }) => <Value text={site} /> },
  {
    name: 'State',
    cell({ state }) {
      const [is, text] = stateTexts[state];
      return <State is={is}>{text}</State>;
    },
  },
  { name: 'Lag', class: 'number', cell: ({ roundTripMs }) => millis(roundTripMs) },
  { name: 'Last answer', class: 'number', cell: ({ silentMs }) => agoText(silentMs) },
  { name: 'Called here', class: 'number', cell: ({ askedMsAgo }) => agoText(askedMsAgo) },
  { name: 'Answered', class: 'number', cell: ({ exchanges }) => exact(exchanges) },
  { name: 'Failed', class: 'number', cell: ({ failures }) => exact(failures) },
  {
    name: 'Borrowed',
    class: 'number',
    cell: ({ borrowed }) => (
      <>
        {exact(borrowed)} <span class="dim">hits</span>
      </>
    ),
  },
];

function Exchanges({ list: { peers } }: { readonly list: SiteList }) {
  return (
    <section class="panel">
      <h2>Exchanges of this instance</h2>
      <Table class="exchanges" rows={peers} columns={exchangeColumns} keyOf={({ site }) => site} />
      <p class="dim">
        Lag is the duration of the last exchange; a site called here when it requested hits from this instance. Sites
        exchange twice a second while a limit runs low, and are idle otherwise.
      </p>
    </section>
  );
}
