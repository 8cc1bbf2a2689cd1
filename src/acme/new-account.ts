/** POST new-account: registration, or finding an account by its key (RFC 8555 §7.3, §7.3.1). */

import { z } from 'zod/v4'
import { acmeEndpoint } from './endpoint.ts'
import { renderAccount } from './resources.ts'

export const newAccount = acmeEndpoint({
  resource: 'newAccount',
  signedBy: 'jwk',
  limit: 'new_account',
  payload: {
    schema: z.object({
      contact: z.array(z.string()).optional(),
      termsOfServiceAgreed: z.boolean().optional(),
      onlyReturnExisting: z.boolean().optional(),
      // Registration validates it, because it knows the credentials (RFC 8555 §7.3.4).
      externalAccountBinding: z.unknown().optional(),
    }),
  },
  async handle({ signer, payload, jws, visit, address, now }, { registration, urls, settings }) {
    await visit?.charge()
    const request = {
      key: signer,
      contacts: payload.contact ?? [],
      termsAgreed: payload.termsOfServiceAgreed ?? false,
      onlyReturnExisting: payload.onlyReturnExisting ?? false,
      externalAccountBinding: payload.externalAccountBinding,
      url: jws.header.url,
      address,
    }
    const { created, account } = await registration.register(request, now)
    const terms = settings.directoryMeta.termsOfService
    return {
      status: created ? 201 : 200,
      body: renderAccount(account, urls),
      location: urls.numbered('account', account.id),
      made: { accountId: account.id },
      ...(terms !== undefined && { links: [`<${terms}>;rel="terms-of-service"`] }),
    }
  },
})
