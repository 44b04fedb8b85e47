import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from 'hono'
import { PageError } from '../page-error.js'
import { loginPage } from '../pages/login.js'
import type { Env, World } from '../world.js'
import { giveId } from './cookie.js'
import { formFromHere, formOf } from './form.js'

/** Nobody guesses 256 bits; but nobody has to be fast at it, either. */
const WRONG_MS = 500

/** A token that the file has begins a session. */
export async function logIn(c: Context<Env>, { tokens, sessions }: World): Promise<Response> {
  const { token = '' } = await formFromHere(c)
  const hash = await tokens?.hashOf(token.trim())
  if (hash === undefined) {
    await sleep(WRONG_MS)
    return c.html(loginPage('this token is not known'), 403)
  }
  giveId(c, sessions.begin(hash))
  return c.redirect('/', 303)
}

export async function logOut(c: Context<Env>, world: World): Promise<Response> {
  if (!c.var.visitor.hasSession) throw new PageError(400, 'you have not logged in')
  await formOf(c, world)
  world.sessions.end(c.var.id)
  return c.redirect('/login', 303)
}
