import { parseCharacterName } from '../characters/library/character.ts'
import { nearest } from '../text.ts'

/** The model that an id names, and the character that is played on this model; null if the id names no character. */
export interface RequestedModel {
  readonly model: string
  readonly character: string | null
}

/** The part of a model id before the name of a character. */
const mark = 'character/'

/** The model id of a character that is played on the default model. */
export function playedModelId(character: string): string {
  return mark + character
}

/**
 * Reads `character/NAME`, a character on the default model, and `MODEL/character/NAME`. Any other id is the id of a model. The
 * name may be blank.
 * @param isModel whether a text is the id of a model. The first `/character/` after a model id separates the model and the
 * character
 */
export function readPlayedModel(id: string, isModel: (id: string) => boolean): RequestedModel {
  if (id.startsWith(mark)) return { model: 'default', character: id.slice(mark.length) }
  for (let at = id.indexOf(`/${mark}`); at !== -1; at = id.indexOf(`/${mark}`, at + 1)) {
    const [model, character] = [id.slice(0, at), id.slice(at + 1 + mark.length)]
    if (model !== '' && isModel(model)) return { model, character }
  }
  return { model: id, character: null }
}

/**
 * The id most similar to an unknown id: of a model, or of a character as a model. Undefined if no id is similar.
 * @param models the ids of models, with `default` if characters can be played on it
 * @param characters the names of characters
 */
export function nearestId(id: string, models: readonly string[], characters: readonly string[]): string | undefined {
  const { name: wanted } = parseCharacterName(id)
  const [isPlayed, on, character] = /^(?:(.+?)\/)?character\/(.+)$/s.exec(wanted) ?? []
  if (isPlayed !== undefined) {
    const [model, name] = [nearest(on ?? 'default', models), nearest(character ?? '', characters)]
    if (model === undefined || name === undefined) return undefined
    return on === undefined ? playedModelId(name) : `${model}/${playedModelId(name)}`
  }
  const played = models.includes('default') ? characters : []
  // The part `character/` may be missing or mistyped.
  const name = nearest(wanted, played)
  return (
    nearest(wanted, [...models, ...played.map(playedModelId)]) ?? (name === undefined ? undefined : playedModelId(name))
  )
}
