/** Options of the embedded mode of `chancery serve`. */

import { isGiven, option, optional } from '../../shared/command-line.ts'
import { oneOf, port, text, whole } from '../values.ts'

export const DEV_OPTIONS = {
  dev: isGiven('Development: without -c, an embedded PostgreSQL and a CA of its own'),
  'data-dir': option('With --dev: where the CA and the database live', text, process.env.CHANCERY_DATA ?? 'data'),
  port: option('With --dev: port of the ACME interface', port, 8443),
  'http01-port': option('With --dev: port that http-01 asks', port, 5002),
  'dns01-port': optional(
    'With --dev: offer dns-01 and dns-account-01, and ask a name server at this port of 127.0.0.1 about .test',
    port,
  ),
  'dns-persist': isGiven('With --dev and --dns01-port: offer dns-persist-01'),
  validator: optional('With --dev: offer the method of a validator module, ./path/file.js#ExportName', text),
  'tlsalpn01-port': option('With --dev: port that tls-alpn-01 asks', port, 5001),
  workers: optional('With --dev: number of front threads', whole(1, 1024)),
  console: isGiven('With --dev: offer the Admin API and the console'),
  'console-port': option('With --dev and --console: their port on 127.0.0.1', port, 8444),
  crl: isGiven('With --dev: publish a CRL, and name it in certificates'),
  'crl-port': option('With --dev and --crl: port that serves the CRL over plain HTTP', port, 5003),
  'log-level': option(
    'With --dev: DEBUG, INFO, WARNING, ERROR or CRITICAL',
    oneOf(['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL']),
    'WARNING',
  ),
}
