import assert from 'node:assert/strict'
import { it } from 'node:test'
import { redisPath } from '#src/doors/cli/redis-paths.js'

const ID = '0b9c2a4e-6f1d-4c7b-9a52-3f0e8d1c7a66'
const NAMES = {
  'redis://h/0/mail': 'redis://h:6379/0/mail',
  'redis+unix:///run/redis.sock/0/mail': 'redis+unix:///run/redis.sock/0/mail',
  'redis+sentinel://a,b/main/0/mail': 'redis+sentinel://a:26379,b:26379/main/0/mail',
  'redis+cluster://a,b:7000/0/mail': 'redis+cluster://a:6379,b:7000/0/mail',
  'rediss://u:p@h/0/mail?ca=/etc/app/ca.pem&prefix=x': 'rediss://h:6379/0/mail?prefix=x',
}

it('every kind of address names a spool, or with a name behind that of the spool a task', () => {
  for (const [address, name] of Object.entries(NAMES)) {
    assert.deepEqual(redisPath(address), { shown: name, spool: name })
    const [place, query] = address.split('?')
    const task = `${place}/${ID}${query === undefined ? '' : `?${query}`}`
    assert.deepEqual(redisPath(task), { shown: name, spool: name, ref: ID }, task)
    assert.deepEqual(redisPath(`${name}/${ID}`), { shown: name, spool: name, ref: ID })
  }
  assert.equal(redisPath('/var/spool/mail'), undefined)
  assert.throws(() => redisPath('redis://h/mail'), { code: 'ADDRESS_INVALID' })
})
