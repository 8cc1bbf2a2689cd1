/** Rules for the listener, the proxies in front of it and the database. */

import { not, type Rule, required } from './rule.ts'

export const SERVER: readonly Rule[] = [
  not(
    'server.external_url',
    [],
    (c) => c.server.external_url.endsWith('/'),
    'ends with a slash; leave the final slash out',
  ),
  required(
    'server.tls.key_path',
    (c) => c.server.tls.cert_path !== null,
    (c) => c.server.tls.key_path,
    'server.tls.cert_path needs it',
    ['server.tls.cert_path'],
  ),
  required(
    'server.tls.cert_path',
    (c) => c.server.tls.key_path !== null,
    (c) => c.server.tls.cert_path,
    'server.tls.key_path needs it',
    ['server.tls.key_path'],
  ),
  not(
    'server.tls.self_issued_names',
    ['server.tls.cert_path', 'server.tls.key_path'],
    (c) => c.server.tls.self_issued_names.length > 0 && c.server.tls.cert_path === null,
    'needs server.tls.cert_path and key_path: the files into which the service writes the certificate it issues to itself',
  ),
  not(
    'proxy.trusted_proxies',
    ['proxy.enabled'],
    (c) => c.proxy.enabled && c.proxy.trusted_proxies.length === 0,
    'is empty; proxy.enabled needs at least one trusted address or network',
  ),
  not(
    'database.min_connections',
    ['database.max_connections'],
    (c) => c.database.min_connections > c.database.max_connections,
    (c) =>
      `is ${c.database.min_connections}; must be at most database.max_connections, which is ${c.database.max_connections}`,
  ),
]
