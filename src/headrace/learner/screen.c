/* What is done to single pixels of a console's screen: colours made grey, the brighter of two frames, and shrinking by
 * area. Only rows that changed are worked on, as most of a screen stays from one step to the next. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define MOST_COLUMNS 1024

/* Makes `grey` and `brighter` what follows from the screen, in the rows that are not as last seen, and marks them. 0
 * where it met a colour that the table of greys lacks (-1): that row and the next ones are left to another call. */
int hr_renew_screen(const uint8_t *screen, uint8_t *seen, uint8_t *grey, const uint8_t *other, uint8_t *brighter,
                    const int32_t *greys, uint8_t *changed, int32_t rows, int32_t columns) {
    for (int32_t y = 0; y < rows; y++) {
        const int32_t at = y * columns;
        if (!memcmp(screen + at, seen + at, (size_t)columns)) continue;
        int32_t bits = 0;
        for (int32_t x = at; x < at + columns; x++) {
            const int32_t value = greys[screen[x]];
            bits |= value;
            grey[x] = (uint8_t)value;
        }
        if (bits < 0) return 0;
        for (int32_t x = at; x < at + columns; x++) brighter[x] = grey[x] > other[x] ? grey[x] : other[x];
        memcpy(seen + at, screen + at, (size_t)columns);
        changed[y] = 1;
    }
    return 1;
}

/* Which old pixels every new one covers: the first, and, in rows, how much of it and of the next ones. */
typedef struct {
    const uint32_t *first;
    const int32_t *shares;
    int32_t most, size; /* old pixels that a new one touches; new pixels */
} hr_covers;

/* Makes those rows of the small image anew that cover a changed one. Sums of whole numbers are exact; the only rounding
 * is to the nearest grey, halves to the even one. */
int hr_shrink_screen(const uint8_t *image, const uint8_t *changed, const hr_covers *down, const hr_covers *right,
                     int32_t rows, int32_t columns, uint8_t *small) {
    int32_t across[MOST_COLUMNS], along[MOST_COLUMNS];
    const float area = (float)(rows * columns);
    if (columns > MOST_COLUMNS || right->size > MOST_COLUMNS) return 0;
    for (int32_t j = 0; j < down->size; j++) {
        int touched = 0;
        for (int32_t i = 0; i < down->most; i++) touched |= changed[down->first[j] + (uint32_t)i];
        if (!touched) continue;
        memset(across, 0, sizeof across);
        memset(along, 0, sizeof along);
        for (int32_t i = 0; i < down->most; i++) {
            const int32_t height = down->shares[i * down->size + j];
            const uint8_t *row = image + (down->first[j] + (uint32_t)i) * (uint32_t)columns;
            for (int32_t x = 0; x < columns; x++) across[x] += height * row[x];
        }
        for (int32_t i = 0; i < right->most; i++)
            for (int32_t x = 0; x < right->size; x++)
                along[x] += right->shares[i * right->size + x] * across[right->first[x] + (uint32_t)i];
        for (int32_t x = 0; x < right->size; x++)
            small[j * right->size + x] = (uint8_t)rintf((float)along[x] / area);
    }
    return 1;
}
