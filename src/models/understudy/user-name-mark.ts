/** Stands for the user's name in what an understudy reads, so that one reading of a card serves every user. */
export const userNameMark = '\u{F0000}'
