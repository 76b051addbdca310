import { useState } from 'preact/hooks';
import { Failure } from '../parts/texts.tsx';
import { linkTo } from '../route.ts';
import { session, signIn } from '../session.ts';

export function SignIn() {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState<string>();
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const failed = await signIn(token);
    setProblem(failed);
    if (failed === undefined) location.hash = linkTo('overview');
  };
  if (session.value && !session.value.needsToken)
    return (
      <>
        <h1>Sign in</h1>
        <p>No token is set, so signing in is not possible. Set ADMIN_TOKEN and restart the service.</p>
      </>
    );
  return (
    <>
      <h1>Sign in</h1>
      <form class="panel narrow" onSubmit={(event) => void submit(event)}>
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
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
    </>
  );
}

/** Shown in place of values that require signing in. */
export function SignInNeeded({ what }: { readonly what: string }) {
  return (
    <div class="empty">
      <strong>{what} shows values that callers sent.</strong>
      {session.value?.needsToken ? (
        <p>
          <a href={linkTo('sign-in')}>Sign in</a> to see it.
        </p>
      ) : (
        <p>
          Without ADMIN_TOKEN, only browsers on the machine of the service may see them. Set ADMIN_TOKEN to sign in from
          elsewhere.
        </p>
      )}
    </div>
  );
}
