/** The words of a text that may have several lines: a list of many short strings. No character is an escape. */
export const words = ({ raw: [text = ''] }: TemplateStringsArray): string[] => text.trim().split(/\s+/)
