/** Files of the host and their rights, the configurations, and the clock. */

import { chmodSync, chownSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import type { Stand } from '../stand.ts'
import { at, type Fault } from './fault.ts'

const mode = (file: (stand: Stand) => string, bits: number) => (stand: Stand) => {
  const before = statSync(file(stand)).mode & 0o777
  chmodSync(file(stand), bits)
  return () => chmodSync(file(stand), before)
}

export const FILES: Fault[] = [
  {
    name: 'everybody may change the configuration',
    id: 'files.configuration',
    mend: /chmod 640 .*config\.yaml/,
    plant: mode(({ files }) => files.config, 0o662),
  },
  {
    name: 'everybody may read a secret in the configuration',
    id: 'configuration.intended',
    mend: /^chmod 640 .*config\.yaml; then replace the secret/,
    plant: mode(({ files }) => files.config, 0o644),
  },
  {
    name: 'everybody may read the secret of the signer',
    id: 'files.signer-secret',
    mend: /chmod 640 .*signer\.secret/,
    plant: mode(({ files }) => files.secret, 0o644),
    blinds: true,
  },
  {
    name: 'the group may read the key of the issuer',
    id: 'files.issuer-key',
    mend: /chmod 600 .*issuer\.key/,
    plant: mode(({ files }) => files.key, 0o640),
  },
  {
    name: 'the key of the issuer belongs to the service',
    id: 'files.issuer-key',
    mend: /chown chancery-signer .*issuer\.key/,
    plant({ files }) {
      const { uid, gid } = statSync(files.key)
      chownSync(files.key, 64_101, gid)
      return () => chownSync(files.key, uid, gid)
    },
  },
  {
    name: 'everybody may read the passphrase of a key',
    id: 'files.pin',
    mend: /chmod 600 .*passphrase/,
    signer(stand) {
      writeFileSync(at(stand, 'passphrase'), 'secret', { mode: 0o644 })
      return { 'issuers.0.key.passphrase_file': at(stand, 'passphrase') }
    },
  },
  {
    name: 'everybody may read the variables of the unit',
    id: 'files.environment',
    mend: /chmod 600 .*service\.env/,
    plant(stand) {
      writeFileSync(at(stand, 'service.env'), 'DB_PASSWORD=x\n', { mode: 0o644 })
      return () => rmSync(at(stand, 'service.env'))
    },
  },
  {
    name: 'the folder of the socket is open',
    id: 'files.socket',
    mend: /chmod 750 .*run/,
    plant: mode((stand) => at(stand, 'run'), 0o755),
  },
  {
    name: 'others may write into the folder of the audit chain',
    id: 'files.state',
    mend: /chmod 700 .*signer/,
    plant: mode((stand) => at(stand, 'signer'), 0o770),
  },
]

export const CONFIGURATION: Fault[] = [
  {
    name: 'a key is misspelt',
    id: 'configuration.valid',
    mend: /--validate-only/,
    config: { 'server.prot': 1 },
    blinds: true,
  },
  {
    name: 'a file is not there',
    id: 'configuration.files',
    mend: /acme\.eab_key_file/,
    config: { 'acme.eab_key_file': '/nowhere.key' },
  },
  {
    name: 'a key of the signer is misspelt',
    id: 'configuration.signer',
    mend: /chancery-signer --validate-only/,
    signer: { sokcet: '/x' },
    blinds: true,
  },
  {
    name: 'the configuration was changed and the service not restarted',
    id: 'configuration.running',
    mend: /systemctl restart chancery/,
    plant({ files }) {
      const { atime, mtime } = statSync(files.config)
      utimesSync(files.config, atime, new Date(Date.now() + 60_000))
      return () => utimesSync(files.config, atime, mtime)
    },
  },
]

/** The wrapper `faketime` trips over what a killed process of the same number has left behind. */
const LIBRARY = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/faketime/libfaketime.so.1`
const AHEAD = ['env', `LD_PRELOAD=${LIBRARY}`, 'FAKETIME=+10m']

export const CLOCK: Fault[] = [
  { name: 'the clock of this host is ahead', id: 'clock.database', mend: /timedatectl/, prefix: AHEAD, blinds: true },
  { name: 'the clock of the proxy is behind', id: 'clock.proxy', mend: /timedatectl/, prefix: AHEAD, blinds: true },
]
