import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveOptions } from '#src/formats/config/options.js'
import { shownSettings } from '#src/formats/config/shown-settings.js'
import { readConfig } from '#src/formats/ini/read-config.js'
import { Hide } from '#src/formats/protocol/hide.js'

const SECRET = 'zq31'

/** Returns what is shown of one setting: `option = value`, for each option that has this value somewhere. */
function shown(key: string, value: string, hidden: readonly string[] = []): string[] {
  const commandLine = [{ key, value, where: { file: 'app.ini', line: 7 } }]
  const config = readConfig({ environment: {}, commandLine, files: [], version: '0' })
  return [...shownSettings(resolveOptions(config), new Hide(hidden))]
    .filter(({ from }) => from === 'app.ini:7')
    .map(({ option, value: text, spool = '' }) => `${spool === '' ? '' : `${spool}: `}${option} = ${text}`)
}

describe('the settings that are shown', () => {
  for (const [key, value, ...expected] of [
    ['spooler', `redis://joe:${SECRET}@db:6379/0/mail`, 'spooler = redis://[hidden]@db:6379/0/mail'],
    ['spooler', `redis://:${SECRET}@x@db/0/mail`, 'spooler = redis://[hidden]@db/0/mail'],
    [
      'spooler-external',
      `redis+sentinel://a,b/main/0/mail?sentinel-user=joe&sentinel-password=${SECRET}`,
      'spooler-external = redis+sentinel://a,b/main/0/mail?sentinel-user=joe&sentinel-password=[hidden]',
    ],
    [
      'spooler2',
      `dir=rediss://:${SECRET}@db/0/mail,processes=2`,
      'spooler2 = dir=rediss://[hidden]@db/0/mail,processes=2',
      'rediss://[hidden]@db/0/mail: spooler-processes = 2',
    ],
    ['spooler-queue', `mail=redis://u:${SECRET}@db/0/m`, 'spooler-queue = mail=redis://[hidden]@db/0/m'],
    ['env', `DB=${SECRET}=${SECRET}`, 'env = DB=[hidden]'],
    ['env', `DB=a\n${SECRET}`, 'env = DB=[hidden]'],
    ['unenv', 'LANG', 'unenv = LANG'],
    ['spooler-alarm', `url=https://hooks/${SECRET},max-due=9`, 'spooler-alarm = url=[hidden],max-due=9'],
    ['spooler-alarm', `url=https://hooks/a\\,${SECRET},max-due=9`, 'spooler-alarm = url=[hidden],max-due=9'],
    ['spooler-alarm', 'url=@/etc/url,secret=@/etc/key', 'spooler-alarm = url=@/etc/url,secret=@/etc/key'],
    [
      'cron',
      `0 3 * * * post --password=${SECRET} "token": "${SECRET}"`,
      'cron = 0 3 * * * post --password=[hidden] "token": [hidden]',
    ],
  ] as const)
    it(`are without the secret in ${key} = ${value.replaceAll('\n', '\\n')}`, () => {
      const texts = shown(key, value)
      assert.deepEqual(texts, expected)
      assert.ok(!texts.join().includes(SECRET))
    })

  it('are without what spooler-hide names', () => {
    const command = `cron = 0 3 * * * post pin=${SECRET}`
    assert.deepEqual(shown('cron', command.slice(7)), [command])
    assert.deepEqual(shown('cron', command.slice(7), ['pin']), ['cron = 0 3 * * * post pin=[hidden]'])
  })
})
