import { Plain } from '../views/layout.js'

/** @param fault why the token that was shown does not let its owner in */
export function loginPage(fault?: string) {
  return (
    <Plain title="Log in">
      {fault === undefined ? null : <p role="alert">{fault}</p>}
      <form method="post" action="/login" class="login">
        <label>
          Token
          <input type="password" name="token" autocomplete="current-password" required autofocus />
        </label>
        <button type="submit">Log in</button>
        <p class="quiet">
          Whoever runs the daemon makes tokens, with <code>spoold token</code>.
        </p>
      </form>
    </Plain>
  )
}
