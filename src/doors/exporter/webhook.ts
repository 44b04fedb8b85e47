import { createHmac } from 'node:crypto'
import { request as plainRequest } from 'node:http'
import { request } from 'node:https'
import { privateText } from '../../system/private-file.js'
import { type Webhook, webhookUrl } from '../net/alarm-target.js'

const TIMEOUT_MS = 10_000

/**
 * Posts a body to a webhook. Of the answer only the status is read. No message of an error contains the secret, or more of
 * the URL than its host.
 *
 * @throws Error why it was not taken
 */
export async function post(webhook: Webhook, allowsPlain: boolean, body: string): Promise<void> {
  const { target, secret } = await openWebhook(webhook, allowsPlain)
  const status = await send(target, body, {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'user-agent': 'spoold',
    ...(secret === null ? {} : { 'x-spoold-signature': `sha256=${signature(secret, body)}` }),
  })
  if (status >= 300 && status < 400)
    throw new Error(`${target.host} answered with status ${status}; redirects are not followed`)
  if (status < 200 || status > 299) throw new Error(`${target.host} answered with status ${status}`)
}

/** Reads its files. @throws Error, as `post` does */
export async function openWebhook({ url, secretFile }: Webhook, allowsPlain: boolean) {
  return {
    target: webhookUrl('text' in url ? url.text : await privateText(url.file), allowsPlain),
    secret: secretFile === null ? null : await privateText(secretFile),
  }
}

function signature(secret: string, body: string): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}

/** @returns the status */
function send(url: URL, body: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const begin = url.protocol === 'https:' ? request : plainRequest
    const sent = begin(url, { method: 'POST', headers, agent: false, rejectUnauthorized: true })
    const timer = setTimeout(
      () => sent.destroy(new Error(`${url.host} did not answer within ${TIMEOUT_MS / 1000} s`)),
      TIMEOUT_MS,
    )
    sent.once('close', () => clearTimeout(timer))
    sent.on('error', reject)
    sent.once('response', response => {
      response.on('error', () => {}) // it is cut off here
      response.destroy()
      resolve(response.statusCode ?? 0)
    })
    sent.end(body)
  })
}
