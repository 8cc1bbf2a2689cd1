/** Runs `chancery setup` on a copy of this machine. */

import { CHECKOUT, openPrivateHost, type PrivateHost, startPostgres } from './private-host.ts'

export const NAME = 'acme.corp.example'
export const ANSWERS_FILE = '/root/answers.yaml'
const MAIN = `${CHECKOUT}/dist/src/cli/main.js`

export interface SetupHost extends PrivateHost {
  setUp(...options: string[]): Promise<{ code: number | null; output: string }>
  /** A command of the service with its configuration, as its user. */
  chancery(...words: string[]): Promise<string>
  signer(...words: string[]): Promise<string>
  /** Asks the database of the service. */
  chancerySql(statement: string): Promise<string>
}

/** @param options.postgres false: no cluster runs there */
export async function openSetupHost({ systemd = true, postgres = true } = {}): Promise<SetupHost> {
  const host = await openPrivateHost({ hosts: [NAME], systemd })
  try {
    if (postgres) await startPostgres(host)
  } catch (error) {
    await host.close()
    throw error
  }
  const config = ['-c', '/etc/chancery/config.yaml']
  return {
    ...host,
    setUp: (...options) => host.run('/usr/bin/node', MAIN, 'setup', ...options),
    chancery: (...words) => host.must('runuser', '-u', 'chancery', '--', '/usr/bin/node', MAIN, ...config, ...words),
    chancerySql: (statement) => host.must('runuser', '-u', 'postgres', '--', 'psql', '-tAc', statement, 'chancery'),
    signer: (...words) => host.must('/usr/bin/node', `${CHECKOUT}/dist/signer/start.cjs`, ...words),
  }
}

/** On a copy that ends with the work. */
export async function withSetupHost(
  work: (host: SetupHost) => Promise<void>,
  options?: Parameters<typeof openSetupHost>[0],
): Promise<void> {
  const host = await openSetupHost(options)
  try {
    await work(host)
  } finally {
    await host.close()
  }
}

/** The fewest answers, and some of the test's own. */
export const answersFile = (more = ''): string => `url: https://${NAME}\nadmin_email: ops@corp.example\n${more}`

/** Without questions. @returns what it prints @throws Error when it does not end with 0 */
export async function setUp(host: SetupHost, answers: string, ...options: string[]): Promise<string> {
  host.write(ANSWERS_FILE, answers)
  const { code, output } = await host.setUp('--unattended', '--answers', ANSWERS_FILE, ...options)
  if (code !== 0) throw new Error(`setup ended with ${code}: ${output}`)
  return output
}
