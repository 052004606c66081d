import { useEffect, useRef, useState } from 'preact/hooks';

import { api } from '../state/app.ts';
import { errorText } from '../state/polled.ts';

/** Shown instead of the page if reading needs the token. */
export function SignIn() {
  const input = useRef<HTMLInputElement>(null);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => input.current?.focus(), []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const field = input.current;
    if (field === null || busy) return;
    setBusy(true);
    setError('');
    try {
      if (await api.signIn(field.value.trim())) {
        location.reload();
        return;
      }
      setError('The token is not valid.');
    } catch (reason) {
      setError(errorText(reason));
    }
    setBusy(false);
    field.select();
    field.focus();
  };
  return (
    <main id="main" class="sign-in" aria-labelledby="sign-in-title">
      <form onSubmit={(e) => void submit(e)}>
        <h1 id="sign-in-title">Sign in to Tocsin</h1>
        <p class="muted">
          This dashboard is reachable from other machines. Sign in with the token that it was started with (
          <code>TOCSIN_TOKEN</code>). The sign-in lasts 12 hours.
        </p>
        <label class="field">
          Token
          <input
            ref={input}
            type="password"
            name="token"
            required
            autocomplete="current-password"
            aria-invalid={error !== ''}
            aria-describedby="sign-in-error"
          />
        </label>
        <p id="sign-in-error" class="sign-in-error" role="alert">
          {error}
        </p>
        <button type="submit" class="primary" aria-disabled={busy}>
          Sign in
        </button>
      </form>
    </main>
  );
}
