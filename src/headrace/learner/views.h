/* Random views of an image: a shift with repeated edges, and a factor. */
#ifndef HR_VIEWS_H
#define HR_VIEWS_H

#include "learner.h"
#include "vectors.h"

#define VIEW_DRAWS 3 /* uniform numbers that one view is made of */

/* The inverse of erf, by the polynomials of Giles (2012) for single precision. */
static float inverse_erf(float x) {
    static const float near[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                 -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
    static const float far[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
    float w = -log1pf(-x * x);
    const float *p = w < 5.0f ? near : far;
    w = w < 5.0f ? w - 2.5f : sqrtf(w) - 3.0f;
    float sum = p[0];
    for (int i = 1; i < 9; i++) sum = p[i] + sum * w;
    return sum * x;
}

static int offset_of(float uniform, int shift) {
    const int at = (int)(uniform * (float)(2 * shift + 1));
    return (at < 2 * shift ? at : 2 * shift) - shift;
}

static int within(int i, int size) { return i < 0 ? 0 : i < size ? i : size - 1; }

/* One image under the view that three uniform numbers decide; a vector is a 1 x 1 image, and only scaled. */
static void view_image(const hr_auxiliary *aux, const float *image, int height, int width, int channels, int spatial,
                       const float *uniform, float *out) {
    const size_t size = (size_t)height * (size_t)width * (size_t)channels;
    copy(out, image, size);
    if (aux->augmented) {
        const float normal = sqrtf(2.0f) * inverse_erf(2 * uniform[2] - 1);
        const float clipped = normal > 2 ? 2 : normal < -2 ? -2 : normal, factor = 1 + aux->intensity * clipped;
        const int down = spatial ? offset_of(uniform[0], aux->shift) : 0;
        const int right = spatial ? offset_of(uniform[1], aux->shift) : 0;
        for (int i = 0; i < height; i++)
            for (int j = 0; j < width; j++) {
                const float *from = image + (within(i + down, height) * width + within(j + right, width)) * channels;
                float *to = out + (i * width + j) * channels;
                for (int k = 0; k < channels; k++) to[k] = factor * from[k];
            }
    }
    if (aux->clipped)
        for (size_t i = 0; i < size; i++)
            out[i] = out[i] < aux->clip_low ? aux->clip_low : out[i] > aux->clip_high ? aux->clip_high : out[i];
}

#endif
