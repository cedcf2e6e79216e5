/** What the id of a model asks for: a model, and the character that is played on it where the id names one. */
export interface RequestedModel {
  readonly model: string
  readonly character: string | null
}

/** What stands before a character's name in the id of a model. */
const mark = 'character/'

/** The id of a character as a model that is played on the default model. */
export function playedModelId(character: string): string {
  return mark + character
}

/**
 * Reads `character/NAME`, a character on the default model, and `MODEL/character/NAME`. Whatever else an id is, it is a model's.
 * @param isModel tells what is the id of a model: the first `/character/` with one before it counts
 */
export function readPlayedModel(id: string, isModel: (id: string) => boolean): RequestedModel {
  if (id.startsWith(mark) && id.length > mark.length) return { model: 'default', character: id.slice(mark.length) }
  for (let at = id.indexOf(`/${mark}`); at !== -1; at = id.indexOf(`/${mark}`, at + 1)) {
    const [model, character] = [id.slice(0, at), id.slice(at + 1 + mark.length)]
    if (model !== '' && character !== '' && isModel(model)) return { model, character }
  }
  return { model: id, character: null }
}
