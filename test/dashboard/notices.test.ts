import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Browser, csrfIn, startDashboard } from '../helpers/dashboard.js'

it('the notice of what a form did is shown once, on the next page, and not in a refresh before it', async () => {
  const { place, tokenOf } = await startDashboard({ handler: 'export default () => -2' })
  const browser = new Browser(place)
  await browser.logIn(tokenOf('admin'))
  const path = '/spools/spool'
  const csrf = csrfIn((await browser.get(path)).text)
  assert.equal((await browser.post(`${path}/pause`, { csrf })).status, 303)
  const isSaid = async (headers = {}) => {
    const { status, text } = await browser.get(path, headers)
    assert.equal(status, 200, text)
    return /<p [^>]*class="notice said good"/.test(text)
  }
  assert.deepEqual(
    [await isSaid({ 'HX-Request': 'true' }), await isSaid(), await isSaid()],
    [false, true, false],
  )
})
