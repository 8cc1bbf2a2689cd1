/** `chancery perspective`: a remote perspective for other instances. */

import { z } from 'zod/v4'
import { checkedText, list, optionalText, port, setting, text, whole } from '../field.ts'

const MIN_TOKEN = 16

export const Perspective = z
  .strictObject({
    code: setting(
      checkedText('a name of letters, digits, ".", "_" and "-"', (value) =>
        /^[A-Za-z0-9._-]{1,64}$/.test(value),
      ).default('chancery'),
      'What it calls itself in its answers (`perspective_code`).',
    ),
    bind: setting(text('0.0.0.0'), 'Address to listen on.'),
    port: setting(port(8444), 'TCP port to listen on.'),
    cert_path: setting(optionalText(), 'PEM file with its server certificate and chain.'),
    key_path: setting(optionalText(), 'PEM file with the private key of that certificate.'),
    tokens: setting(
      list(checkedText(`a text of at least ${MIN_TOKEN} characters`, (value) => value.length >= MIN_TOKEN)),
      'Bearer tokens of those who may ask, one each.',
      { secret: true },
    ),
    client_ca_path: setting(
      optionalText(),
      'PEM file with the CAs of client certificates; with `tokens` as well, a caller needs both.',
    ),
    max_concurrent: setting(whole(1, 500), 'Checks at the same time; as many may wait.'),
  })
  .prefault({})
  .meta({ description: 'A remote perspective for other instances; read by `chancery perspective` only.' })
