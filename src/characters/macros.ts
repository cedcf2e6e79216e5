/** The names that a card's texts speak of. */
export interface Names {
  readonly character: string
  readonly user: string
}

const macro = /\{\{(char|user|original)\}\}|<(char|bot|user)>/gi

/**
 * Puts the names in the place of `{{char}}`, `<BOT>`, `<CHAR>`, `{{user}}` and `<USER>`, in one pass:
 * what is put in is never read again, so that no name can smuggle in a macro.
 * @param original what `{{original}}` stands for; it stays as it is without one
 */
export function expandNames(text: string, names: Names, original?: string): string {
  return text.replace(macro, (written, braced: string | undefined, angled: string | undefined) => {
    const name = (braced ?? angled)?.toLowerCase()
    if (name === 'original') return original ?? written
    return name === 'user' ? names.user : names.character
  })
}
