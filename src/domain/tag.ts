/** Tags of accounts and credentials: they say whose it is, and which registrars look after it. */

export const MOST_TAGS = 10
export const TAG_RULE = 'must be 1 to 40 lower-case letters, digits and inner hyphens'
export const isTag = (text: string) => /^[a-z\d](?:[a-z\d-]{0,38}[a-z\d])?$/.test(text)
