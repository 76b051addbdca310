import { useState } from 'preact/hooks';
import { Failure } from '../parts/texts.tsx';
import { linkTo } from '../route.ts';
import { session, signIn } from '../session.ts';

export function SignIn() {
  return (
    <>
      <h1>Sign in</h1>
      {session.value && !session.value.needsToken ? (
        <p>
          No token is set. On the machine of the service, open the address that it printed at its start; or set
          ADMIN_TOKEN.
        </p>
      ) : (
        <section class="panel narrow">
          <SignInForm
            onDone={() => {
              location.hash = linkTo('overview');
            }}
          />
        </section>
      )}
    </>
  );
}

/** @param onDone  called after a change; without it, the page stays and shows the new values */
function SignInForm({ onDone }: { readonly onDone?: () => void }) {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState<string>();
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const failed = await signIn(token);
    setProblem(failed);
    if (failed === undefined) onDone?.();
  };
  return (
    <form class="stack narrow" onSubmit={(event) => void submit(event)}>
      <input type="text" autocomplete="username" value="weir" readOnly hidden />
      <label class="field">
        Token
        <input
          type="password"
          autocomplete="current-password"
          required
          value={token}
          onInput={({ currentTarget }) => setToken(currentTarget.value)}
        />
      </label>
      <p class="dim">One of ADMIN_TOKEN. It is sent once; this browser then keeps a session for 12 hours.</p>
      <Failure message={problem} />
      <div>
        <button type="submit" class="primary">
          Sign in
        </button>
      </div>
    </form>
  );
}

/** Shown in place of values that require signing in. */
export function SignInNeeded({ what }: { readonly what: string }) {
  return (
    <div class="stack">
      <p>{what} shows values that callers sent.</p>
      {session.value?.needsToken ? (
        <SignInForm />
      ) : (
        <p class="dim">
          Without ADMIN_TOKEN, open the address that the service printed at its start, on its machine. Set ADMIN_TOKEN
          to sign in from elsewhere.
        </p>
      )}
    </div>
  );
}
