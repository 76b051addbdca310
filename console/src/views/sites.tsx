import type { SiteList } from '../../../src/edge/sites/shapes.ts';
import { get } from '../api.ts';
import { duration, exact, millis } from '../format.ts';
import { Empty, Failure, State, type StateName, Value } from '../parts/texts.tsx';
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
        <div>
          <dt>This site</dt>
          <dd class="large">
            <Value text={site} />
          </dd>
        </div>
        <div>
          <dt>Sites cut off</dt>
          <dd class={cutOff > 0 ? 'bad' : undefined}>
            <span class="large">{cutOff}</span> <span class="dim">of {sites.length - lost.length}</span>
          </dd>
        </div>
        <div>
          <dt>Slowest exchange</dt>
          <dd>
            <span class="large">{millis(slowest)}</span>
          </dd>
        </div>
        <div>
          <dt>Error, last minute</dt>
          <dd class={errorRatio > errorBound ? 'bad' : undefined}>
            <span class="large">{percentOf(errorRatio)}</span> <span class="dim">declared {percentOf(errorBound)}</span>
          </dd>
        </div>
      </dl>
    </section>
  );
}

const stateTexts: Readonly<Record<Peer['state'], readonly [StateName, string]>> = {
  in_step: ['good', 'In step'],
  cut_off: ['bad', 'Cut off'],
  idle: ['plain', 'Idle'],
};

function Exchanges({ list: { peers } }: { readonly list: SiteList }) {
  return (
    <section class="panel">
      <h2>Exchanges of this instance</h2>
      <table class="wide exchanges">
        <thead>
          <tr>
            <th scope="col">Site</th>
            <th scope="col">State</th>
            {['Lag', 'Last answer', 'Called here', 'Answered', 'Failed', 'Borrowed'].map((name) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {peers.map((peer) => (
            <ExchangeRow key={peer.site} peer={peer} />
          ))}
        </tbody>
      </table>
      <p class="dim">
        Lag is the duration of the last exchange; a site called here when it requested hits from this instance. Sites
        exchange twice a second while a limit runs low, and are idle otherwise.
      </p>
    </section>
  );
}

const agoText = (ms: number): string => (ms < 0 ? 'never' : ms < 1_500 ? 'now' : `${duration(ms)} ago`);

function ExchangeRow({ peer }: { readonly peer: Peer }) {
  const { site, state, roundTripMs, silentMs, askedMsAgo, exchanges, failures, borrowed } = peer;
  const [is, text] = stateTexts[state];
  return (
    <tr>
      <th scope="row">
        <Value text={site} />
      </th>
      <td data-label="State">
        <State is={is}>{text}</State>
      </td>
      <td class="number" data-label="Lag">
        {millis(roundTripMs)}
      </td>
      <td class="number" data-label="Last answer">
        {agoText(silentMs)}
      </td>
      <td class="number" data-label="Called here">
        {agoText(askedMsAgo)}
      </td>
      <td class="number" data-label="Answered">
        {exact(exchanges)}
      </td>
      <td class="number" data-label="Failed">
        {exact(failures)}
      </td>
      <td class="number" data-label="Borrowed">
        {exact(borrowed)} <span class="dim">hits</span>
      </td>
    </tr>
  );
}
