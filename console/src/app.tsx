import { useEffect, useRef } from 'preact/hooks';
import { duration } from './format.ts';
import { connection, silentMs, snapshot } from './live.ts';
import { SearchBox } from './parts/search-box.tsx';
import { State } from './parts/texts.tsx';
import { linkTo, param, route } from './route.ts';
import { session, signOut } from './session.ts';
import { Audit } from './views/audit.tsx';
import { Candidate } from './views/candidate.tsx';
import { Client } from './views/client.tsx';
import { Health } from './views/health.tsx';
import { Overview } from './views/overview.tsx';
import { Rule } from './views/rule.tsx';
import { Rules } from './views/rules.tsx';
import { Search } from './views/search.tsx';
import { SignIn } from './views/sign-in.tsx';
import { Sites } from './views/sites.tsx';
import { Unmatched } from './views/unmatched.tsx';
import { Usage } from './views/usage.tsx';

const views = {
  overview: { title: 'Overview', View: Overview },
  rules: { title: 'Rules', View: Rules },
  client: { title: 'Clients', View: Client },
  usage: { title: 'Usage', View: Usage },
  unmatched: { title: 'Unmatched', View: Unmatched },
  candidate: { title: 'Candidate', View: Candidate },
  health: { title: 'Health', View: Health },
  sites: { title: 'Sites', View: Sites },
  audit: { title: 'Audit', View: Audit },
} as const;

/** Views that are not in the navigation. */
const further = {
  rule: { title: 'Rule', View: Rule, under: 'rules' },
  search: { title: 'Search', View: Search, under: undefined },
  'sign-in': { title: 'Sign in', View: SignIn, under: undefined },
} as const;

const viewOf = (name: string) =>
  Object.hasOwn(views, name)
    ? { ...views[name as keyof typeof views], under: name } // checked above
    : Object.hasOwn(further, name)
      ? further[name as keyof typeof further]
      : { title: 'No such page', View: NoSuchPage, under: undefined };

const NoSuchPage = () => (
  <>
    <h1>There is no such page</h1>
    <p>
      The address names no page of the console. <a href={linkTo('overview')}>Overview</a>
    </p>
  </>
);

export function App() {
  const { title, View, under } = viewOf(route.value.view);
  const { hasSites, keepsUsage } = session.value ?? {};
  const hidden = [...(hasSites ? [] : ['sites']), ...(keepsUsage ? [] : ['usage'])];
  const listed = Object.entries(views).filter(([name]) => !hidden.includes(name));
  const main = useRef<HTMLElement>(null);
  const shown = useRef<string | undefined>(undefined);
  useEffect(() => {
    document.title = `${param('path') ?? title} – Weir`;
    if (shown.current !== undefined && shown.current !== title) {
      main.current?.focus({ preventScroll: true }); // so that screen readers start at the new view
      scrollTo(0, 0);
    }
    shown.current = title;
  });
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <header>
        <a class="brand" href={linkTo('overview')}>
          Weir
        </a>
        <nav aria-label="Views">
          {listed.map(([name, { title: text }]) => (
            <a key={name} href={linkTo(name)} aria-current={under === name ? 'page' : undefined}>
              {text}
            </a>
          ))}
        </nav>
        <SearchBox />
        <div class="header-end">
          <ConnectionState />
          <Access />
        </div>
      </header>
      <Silence />
      <main id="main" ref={main} tabIndex={-1}>
        <View />
      </main>
    </>
  );
}

function ConnectionState() {
  const texts = {
    connecting: ['plain', 'Connecting'],
    live: ['good', 'Live'],
    stale: ['warn', 'Stale'],
    disconnected: ['bad', 'Disconnected'],
  } as const;
  const [is, text] = texts[connection.value];
  return (
    <span role="status">
      <State is={is}>{text}</State>
    </span>
  );
}

/** Warns that the shown data is old. */
function Silence() {
  if (connection.value === 'live' || connection.value === 'connecting') return null;
  const old = snapshot.value ? `The data shown is ${duration(silentMs.value)} old.` : 'Nothing has been received yet.';
  const why =
    connection.value === 'stale' ? 'The service has sent nothing new.' : 'The service cannot be reached; trying again.';
  return (
    <p class="notice bad silence">
      {why} {old}
    </p>
  );
}

function Access() {
  const { name, role, domains, needsToken, csrf } = session.value ?? {};
  const scope = domains ? `${role} ${domains.join(', ')}` : role;
  if (csrf !== undefined)
    return (
      <span>
        <span class="dim">
          {name} ({scope}){' '}
        </span>
        <button type="button" class="quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      </span>
    );
  if (needsToken) return <a href={linkTo('sign-in')}>Sign in</a>;
  return <span class="dim">read only</span>;
}
