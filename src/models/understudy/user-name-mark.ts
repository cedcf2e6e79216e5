/** Stands for the user's name in the texts of a card, so that a card is read only once for all users. */
export const userNameMark = '\u{F0000}'
