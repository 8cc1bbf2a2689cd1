/** A service with work to do, mails to send and requests to refuse, and Debian's Prometheus, which scrapes it every second. */

import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { stringify } from 'yaml'
import { type AcmeClient, closeConnections, createAcmeClient, send, startResponder } from './acme-client.ts'
import { adminConfig } from './admin.ts'
import { type Daemon, startDaemon, waitFor } from './daemon.ts'
import { freePort } from './free-port.ts'
import { startMailServer } from './mail-server.ts'
import { startTestService } from './service.ts'
import { startFlows } from './steady-flows.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const TROUBLE_PAUSE_MS = 700
const STRANGER_EVERY = 3
const ANY = { requests: 1_000_000 }

export interface Series {
  metric: Record<string, string>
  /** Seconds since 1970 and the value as text. */
  values: [at: number, value: string][]
}

export interface ObservedService {
  /** Asks a query of the board over the last so many seconds. */
  ask(expr: string, lastSeconds: number, stepSeconds: number): Promise<Series[]>
  dispose(): Promise<void>
}

export async function startObservedService(): Promise<ObservedService> {
  const mails = await startMailServer()
  const sink = createServer((request, response) => request.resume().on('end', () => response.end())).listen(
    0,
    '127.0.0.1',
  )
  await once(sink, 'listening')
  const service = await startTestService({
    config: {
      ...adminConfig(),
      server: { workers: 2 },
      audit_export: {
        webhook_url: `http://127.0.0.1:${(sink.address() as AddressInfo).port}/`,
        webhook_allow_private: true,
      },
      challenges: { http01: { max_retries: 1 } },
      crl: { enabled: true, rebuild_interval_seconds: 5 },
      notifications: { enabled: true, expiration_check_interval_seconds: 5 },
      retention: { cleanup_interval_seconds: 5, cleanup_loop_interval_seconds: 2 },
      security: {
        rate_limits: {
          enabled: true,
          ...Object.fromEntries(
            ['new_nonce', 'new_order', 'challenge', 'challenge_validation', 'finalize'].map((of) => [of, ANY]),
          ),
          new_account: { requests: 10, window_seconds: 3_600 },
        },
      },
      smtp: { enabled: true, host: '127.0.0.1', port: mails.port, tls: 'none', from_address: 'ca@corp.example' },
    },
  })
  const { directoryUrl } = service
  const responder = await startResponder(service.http01Port)
  const prometheus = await startPrometheus(path.join(service.folder, 'prometheus'), service.port)
  const flows = await startFlows({ directoryUrl, responder, connect: () => ({ send, close: () => undefined }) })
  const stopTrouble = startTrouble(directoryUrl)
  return {
    async ask(expr, lastSeconds, stepSeconds) {
      // The same instants for every query of a panel.
      const end = Math.floor(Date.now() / 1_000 / stepSeconds) * stepSeconds
      const times = { start: String(end - lastSeconds), end: String(end), step: String(stepSeconds) }
      const words = new URLSearchParams({ query: substituted(expr, stepSeconds), ...times })
      const answer = await fetch(`${prometheus.url}/api/v1/query_range?${words}`)
      const { status, error, data } = (await answer.json()) as {
        status: string
        error?: string
        data: { result: Series[] }
      }
      if (status !== 'success') throw new Error(`${error} in ${expr}`)
      return data.result
    },
    async dispose() {
      await stopTrouble()
      // A machine that stood still may have cost them something, which is not the subject.
      await flows.stop().catch(() => undefined)
      await responder.close()
      await prometheus.daemon.stop()
      closeConnections()
      await service.dispose()
      await mails.close()
      sink.close()
    },
  }
}

/** The board's variables as Grafana fills them in. Its rate interval is four scrapes at least. */
function substituted(expr: string, stepSeconds: number): string {
  return expr
    .replaceAll('$__rate_interval', `${Math.max(stepSeconds + 1, 4)}s`)
    .replaceAll('$__range', '1h')
    .replaceAll(/\$(?:job|instance)\b/g, '.+')
}

async function startPrometheus(folder: string, servicePort: number): Promise<{ url: string; daemon: Daemon }> {
  mkdirSync(folder)
  const port = await freePort()
  const rules = ['prometheus-rules.yml', 'prometheus-recording-rules.yml']
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: rules.map((name) => path.join(ROOT, 'deploy', name)),
    scrape_configs: [{ job_name: 'chancery', static_configs: [{ targets: [`127.0.0.1:${servicePort}`] }] }],
  }
  const file = path.join(folder, 'prometheus.yml')
  writeFileSync(file, stringify(config))
  const daemon = startDaemon(
    'prometheus',
    [
      `--config.file=${file}`,
      `--storage.tsdb.path=${path.join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=warn',
    ],
    { logFile: path.join(folder, 'log') },
  )
  const url = `http://127.0.0.1:${port}`
  await waitFor('Prometheus', daemon, async () => {
    const answer = await fetch(`${url}/-/ready`).catch(() => undefined)
    return answer?.ok ? true : undefined
  })
  return { url, daemon }
}

/**
 * Accounts with a mail address until no more are permitted, orders whose challenge nobody answers, and certificates that are
 * revoked: what a board has panels for beside that which goes well.
 */
function startTrouble(directoryUrl: string): () => Promise<void> {
  let isOver = false
  let holder: AcmeClient | undefined
  const round = async (i: number) => {
    // An address whose requests are refused again and again would be refused altogether.
    if (i % STRANGER_EVERY === 0) {
      const newcomer = await createAcmeClient(directoryUrl)
      const contact = ['mailto:ops@corp.example']
      if ((await newcomer.newAccount({ contact, termsOfServiceAgreed: true })).status === 201) holder = newcomer
    }
    const order = await holder?.newOrder([`${i}-unanswered.test`])
    if (!holder || order?.status !== 201) return
    const [url] = order.json.authorizations
    const { challenges } = (await holder.post(url)).json
    await holder.post(challenges[0].url, {})
    await holder.settled(url)
  }
  const working = (async () => {
    for (let i = 0; !isOver; i++) {
      // A busy service may refuse one or lose its connection; the next one comes in a moment.
      await round(i).catch(() => undefined)
      await sleep(TROUBLE_PAUSE_MS)
    }
  })()
  return async () => {
    isOver = true
    await working
  }
}
