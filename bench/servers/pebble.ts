/** Pebble (Debian: pebble), Let's Encrypt's test server, started on loopback with throw-away state. */

import { writeFileSync } from 'node:fs'
import { get } from 'node:https'
import path from 'node:path'
import { startChild } from './child.ts'
import { freePort } from './free-port.ts'
import { type Launch, type Launched, startNames } from './launch.ts'
import { outputOf } from './program.ts'

const LOOPBACK = '127.0.0.1'
/** No artificial waits, no rejected nonces, no authorization that is valid before it was asked for. */
const ENVIRONMENT = { PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '0', PEBBLE_AUTHZREUSE: '0' }

export async function launchPebble(
  { folder, cpus, acceptsAll, challengeType }: Launch,
  signal: AbortSignal,
): Promise<Launched> {
  const [port, management, http01Port, tlsPort, dnsPort] = [
    ...[await freePort(), await freePort(), await freePort(), await freePort(), await freePort()],
  ] as [number, number, number, number, number]
  const [key, certificate, config] = ['key.pem', 'certificate.pem', 'pebble.json'].map((name) =>
    path.join(folder, name),
  )
  await outputOf('openssl', certificateArguments(key as string, certificate as string), folder, signal)
  const settings = {
    ...{ listenAddress: `${LOOPBACK}:${port}`, managementListenAddress: `${LOOPBACK}:${management}` },
    ...{ certificate, privateKey: key, httpPort: http01Port, tlsPort },
    ...{ ocspResponderURL: '', externalAccountBindingRequired: false },
  }
  writeFileSync(config as string, JSON.stringify({ pebble: settings }))

  const responders = { host: LOOPBACK, http01Port, dnsPort, tlsAlpn01Port: tlsPort }
  const endNames = await startNames(challengeType, LOOPBACK, dnsPort)
  const directoryUrl = `https://localhost:${port}/dir`
  try {
    const child = await startChild(
      {
        name: 'Pebble',
        command: ['pebble', '-config', config as string, '-dnsserver', `${LOOPBACK}:${dnsPort}`],
        cwd: folder,
        environment: { ...ENVIRONMENT, ...(acceptsAll && { PEBBLE_VA_ALWAYS_VALID: '1' }) },
        ...{ cpus, answersAt: directoryUrl },
      },
      signal,
    )
    return {
      ...{ directoryUrl, pid: child.pid, responders },
      caCertificates: undefined,
      rootCertificate: await textAt(`https://localhost:${management}/roots/0`),
      stop: async () => {
        await child.stop()
        await endNames()
      },
    }
  } catch (error) {
    await endNames()
    throw error
  }
}

function certificateArguments(key: string, certificate: string): string[] {
  return [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
    ...['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', certificate],
  ]
}

/** From a server that we have just started, on loopback. */
function textAt(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    get(url, { rejectUnauthorized: false, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () => resolve(text))
    }).on('error', reject)
  })
}
