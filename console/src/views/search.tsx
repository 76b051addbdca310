import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { get } from '../api.ts';
import { exact } from '../format.ts';
import { rules } from '../live.ts';
import { ClientLink, linkToClient } from '../parts/client-link.tsx';
import { entriesIn, namedPage } from '../parts/search-box.tsx';
import { Descriptor, Empty, Failure, OfDomain, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, param } from '../route.ts';
import { seesValues, session } from '../session.ts';
import { RefusedRequest } from './refused-request.tsx';
import { SignInNeeded } from './sign-in.tsx';

const MAX_SHOWN = 20;

/**
 * What has the searched text: clients of the last minute, overrides, rules, and a refused request with this id. A text
 * that names one page leads there.
 */
export function Search() {
  const text = param('q') ?? '';
  const page = namedPage(text);
  useEffect(() => {
    if (page !== undefined) location.replace(page);
  }, [page]);
  if (page !== undefined) return null;
  const found = rules.value?.rules.filter(({ path }) => path.toLowerCase().includes(text.toLowerCase())) ?? [];
  return (
    <>
      <h1>
        Search for <Value text={text} />
      </h1>
      {seesValues.value ? <Clients text={text} /> : <SignInNeeded what="A list of clients" />}
      {seesValues.value && session.value?.keepsRefusals && <RefusedRequest id={text} />}
      <Found title="Rules" empty="No rule has this text.">
        {found.slice(0, MAX_SHOWN).map(({ path }) => (
          <li key={path}>
            <a href={linkTo('rule', { path })}>{path}</a>
          </li>
        ))}
        {found.length > MAX_SHOWN && (
          <li>
            <a href={linkTo('rules', { q: text })}>All {exact(found.length)}</a>
          </li>
        )}
      </Found>
    </>
  );
}

function Clients({ text }: { readonly text: string }) {
  const top = usePoll(() => get('top', { by: 'hits', count: '1000' }), [text]);
  const overrides = usePoll(() => get('overrides'), [text]);
  const has = (descriptor: string): boolean => descriptor.toLowerCase().includes(text.toLowerCase());
  const hit = (top.data?.rules ?? []).flatMap(({ rule, keys }) =>
    keys.filter(({ descriptor }) => has(descriptor)).map((key) => ({ rule, ...key })),
  );
  const overridden = (overrides.data?.overrides ?? []).filter(({ descriptor }) => has(descriptor));
  const typed = entriesIn(text);
  const domains = typed ? (rules.value?.domains ?? []) : [];
  return (
    <>
      <Failure message={top.error?.message} />
      <Found title="Clients" empty="No client of the last minute has this text. Others are found by key=value.">
        {domains.slice(0, MAX_SHOWN).map(({ name }) => (
          <li key={name}>
            <a href={linkToClient(name, typed ?? [])}>
              <Descriptor entries={typed ?? []} />
            </a>
            <OfDomain domain={name} />
          </li>
        ))}
        {overridden.slice(0, MAX_SHOWN).map(({ domain, entries, descriptor, effect }) => (
          <li key={`${domain} ${descriptor}`}>
            <a href={linkToClient(domain, entries)}>
              <Descriptor entries={entries} />
            </a>{' '}
            <span class="dim">override: {effect}</span>
          </li>
        ))}
        {hit.slice(0, MAX_SHOWN).map((one) => (
          <li key={`${one.rule} ${one.descriptor}`}>
            <ClientLink {...one} /> <span class="dim">{one.rule}</span>
          </li>
        ))}
      </Found>
    </>
  );
}

interface FoundProps {
  readonly title: string;
  readonly empty: string;
  readonly children: readonly ComponentChildren[];
}

function Found({ title, empty, children }: FoundProps) {
  const isEmpty = children.flat().filter(Boolean).length === 0;
  return (
    <section class="panel">
      <h2>{title}</h2>
      {isEmpty ? <Empty title={empty} /> : <ul class="plain-list">{children}</ul>}
    </section>
  );
}
