import io
import os

import numpy as np
import pytest
from PIL import Image

from vit_edge.runtime.errors import InputError
from vit_edge.runtime.images import decode, find_images, to_mode

RANDOM = np.random.default_rng(0)
RGB = RANDOM.integers(0, 256, (12, 20, 3), dtype=np.uint8)
ORIENTATION = 0x0112
# What each EXIF orientation asks a reader to do; the file holds the opposite.
TURNS = {
    1: lambda upright: upright,
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.transpose(1, 0, 2),
    6: lambda upright: np.rot90(upright, 1),
    7: lambda upright: np.rot90(upright, 2).transpose(1, 0, 2),
    8: lambda upright: np.rot90(upright, -1),
}


def encode(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def rgb_of(source, **options):
    return np.asarray(to_mode(decode(source), 3, **options))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", TURNS)
def test_all_exif_orientations_give_the_same_upright_pixels(orientation, kind):
    upright = np.kron(RGB[:2, :3], np.ones((16, 16, 1), np.uint8))  # flat blocks survive JPEG
    stored = Image.fromarray(np.ascontiguousarray(TURNS[orientation](upright)))
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    lossless = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100, "subsampling": 0}}.get(kind, {})
    pixels = rgb_of(encode(stored, kind, exif=exif, **lossless))
    assert pixels.shape == upright.shape
    assert np.abs(pixels.astype(int) - upright).max() <= (3 if kind == "JPEG" else 0)


def test_exif_can_be_ignored_and_is_applied_once():
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    data = encode(Image.fromarray(RGB), "PNG", exif=exif)
    np.testing.assert_array_equal(rgb_of(data, exif=False), RGB)
    once = to_mode(decode(data), 3)
    assert once.size == (12, 20)
    assert to_mode(once, 3).tobytes() == once.tobytes()


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")  # Pillow says so, and goes on
@pytest.mark.parametrize("damaged", [b"Exif\x00\x00garbage", b"Exif\x00\x00MM\x00*\x00\x00\xff\xff", b"Exif\x00\x00"])
def test_damaged_exif_does_not_spoil_the_pixels(damaged):
    np.testing.assert_array_equal(rgb_of(encode(Image.fromarray(RGB), "PNG", exif=damaged)), RGB)


def test_paths_bytes_arrays_and_images_give_the_same_pixels(tmp_path):
    path = tmp_path / "picture.png"
    Image.fromarray(RGB).save(path)
    for source in (path, str(path), path.read_bytes(), RGB, Image.open(path), RGB[::-1][::-1]):
        np.testing.assert_array_equal(rgb_of(source), RGB)


def test_rgb_and_bgr_are_not_mixed_up():
    red = np.zeros((2, 2, 3), np.uint8)
    red[..., 0] = 255
    assert rgb_of(encode(Image.fromarray(red), "BMP"))[0, 0].tolist() == [255, 0, 0]
    assert rgb_of(red)[0, 0].tolist() == [255, 0, 0]


def test_grey_is_replicated_and_colour_becomes_luma():
    grey = RGB[:, :, 0]
    for source in (grey, grey[:, :, np.newaxis], encode(Image.fromarray(grey), "PNG")):
        np.testing.assert_array_equal(rgb_of(source), np.repeat(grey[:, :, np.newaxis], 3, axis=2))
        np.testing.assert_array_equal(np.asarray(to_mode(decode(source), 1)), grey)
    np.testing.assert_array_equal(np.asarray(to_mode(decode(RGB), 1)), np.asarray(Image.fromarray(RGB).convert("L")))


def transparent(mode):
    """Left half opaque black, right half fully transparent black."""
    alpha = np.zeros((4, 4), np.uint8)
    alpha[:, :2] = 255
    rgba = Image.fromarray(np.dstack([np.zeros((4, 4, 3), np.uint8), alpha]))
    if mode == "P":
        picture = Image.new("P", (4, 4), 1)
        picture.putpalette([0, 0, 0, 9, 9, 9])
        picture.paste(0, (0, 0, 2, 4))
        return encode(picture, "PNG", transparency=1)
    if mode == "RGB":
        picture = Image.new("RGB", (4, 4), (9, 9, 9))
        picture.paste((0, 0, 0), (0, 0, 2, 4))
        return encode(picture, "PNG", transparency=(9, 9, 9))
    return rgba.convert(mode) if mode in ("PA", "RGBa") else encode(rgba.convert(mode), "PNG")


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB", "PA", "RGBa"])
@pytest.mark.parametrize("channels", [1, 3])
def test_transparency_lies_on_white(mode, channels):
    pixels = np.asarray(to_mode(decode(transparent(mode)), channels)).reshape(4, 4, channels)
    assert (pixels[:, :2] == 0).all()
    assert (pixels[:, 2:] == 255).all()


def test_half_transparent_arrays_are_blended():
    rgba = np.full((3, 3, 4), (200, 100, 0, 128), np.uint8)
    assert rgb_of(rgba)[1, 1].tolist() == [227, 177, 127]  # 200 * 128/255 + 255 * 127/255 and so on
    opaque = np.dstack([RGB, np.full(RGB.shape[:2], 255, np.uint8)])
    np.testing.assert_array_equal(rgb_of(opaque), RGB)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_keeps_its_high_byte(kind):
    values = np.linspace(0, 65535, 240).astype(np.uint16).reshape(12, 20)
    pixels = np.asarray(to_mode(decode(encode(Image.fromarray(values), kind)), 1))
    np.testing.assert_array_equal(pixels, values >> 8)
    big_endian = Image.frombytes("I;16B", (20, 12), values.astype(">u2").tobytes())
    for image in (big_endian, Image.fromarray(values.astype(np.int32))):
        np.testing.assert_array_equal(np.asarray(to_mode(image, 1)), values >> 8)


def test_palette_one_bit_cmyk_and_other_colour_spaces_are_converted():
    palette = Image.fromarray(RGB).quantize(256)
    np.testing.assert_array_equal(rgb_of(encode(palette, "GIF")), np.asarray(palette.convert("RGB")))
    bits = Image.fromarray(RGB[:, :, 0] > 127)
    np.testing.assert_array_equal(rgb_of(encode(bits, "PNG"))[:, :, 1], np.where(RGB[:, :, 0] > 127, 255, 0))
    flat = Image.new("RGB", (32, 32), (200, 30, 90))
    for mode in ("CMYK", "YCbCr"):  # Pillow writes CMYK as Adobe does: inverted
        pixels = rgb_of(encode(flat.convert(mode), "JPEG", quality=100)).astype(int)
        assert np.abs(pixels - (200, 30, 90)).max() <= 3
    assert np.abs(np.asarray(to_mode(flat.convert("HSV"), 3)).astype(int) - (200, 30, 90)).max() <= 3


def test_an_animation_gives_its_first_frame(tmp_path):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert rgb_of(tmp_path / "a.gif")[0, 0].tolist() == [255, 0, 0]
    frames[0].save(tmp_path / "a.tif", save_all=True, append_images=frames[1:])
    assert rgb_of(tmp_path / "a.tif")[0, 0].tolist() == [255, 0, 0]


def test_float_images_are_scaled_or_refused():
    unit = Image.fromarray(np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4))
    assert np.asarray(to_mode(unit, 1)).ravel().tolist()[::11] == [0, 255]
    for wrong in (np.full((2, 2), 255, np.float32), np.full((2, 2), np.nan, np.float32)):
        with pytest.raises(InputError, match=r"expected 0\.\.1"):
            to_mode(Image.fromarray(wrong), 3)
    with pytest.raises(InputError, match=r"expected 0\.\.65535"):
        to_mode(Image.fromarray(np.full((2, 2), -1, np.int32)), 3)
    with pytest.raises(InputError, match="mode LAB"):
        to_mode(Image.new("LAB", (2, 2)), 3)


def test_the_image_passed_in_is_left_as_it_was():
    exif = Image.Exif()
    exif[ORIENTATION] = 3
    image = Image.open(io.BytesIO(encode(Image.fromarray(RGB), "PNG", exif=exif)))
    to_mode(image, 3)
    assert image.getexif()[ORIENTATION] == 3
    np.testing.assert_array_equal(np.asarray(image), RGB)


def wrong_sources(tmp_path):
    png = encode(Image.fromarray(RGB), "PNG")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("this is no picture\n" * 50)
    (tmp_path / "cut.png").write_bytes(png[: len(png) // 2])
    (tmp_path / "cut.jpg").write_bytes(encode(Image.fromarray(np.tile(RGB, (9, 9, 1))), "JPEG")[:-500])
    return {
        "does not exist": tmp_path / "absent.png",
        "is a folder": tmp_path,
        "is empty": tmp_path / "empty.png",
        "no readable image": tmp_path / "text.jpg",
        "cannot be decoded": tmp_path / "cut.png",
        "truncated or damaged": tmp_path / "cut.jpg",
        "got 0 bytes": b"",
        "5 bytes: got data": b"hello",
        "got a NoneType": None,
        r"float32 \(4, 4, 3\)": np.zeros((4, 4, 3), np.float32),
        r"uint8 \(3, 4, 4, 3\)": np.zeros((3, 4, 4, 3), np.uint8),
        "channels last": np.zeros((3, 8, 8), np.uint8),
        "at least one pixel": np.zeros((0, 4, 3), np.uint8),
        "0 x 4 pixels": Image.new("RGB", (0, 4)),
    }


def test_every_wrong_source_is_one_line_that_says_what_was_found(tmp_path):
    for message, source in wrong_sources(tmp_path).items():
        with pytest.raises(InputError, match=message) as caught:
            decode(source)
        assert "\n" not in str(caught.value)
        assert "expected" in str(caught.value)


def test_unreadable_and_special_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(InputError, match="is a pipe, not a file"):
        decode(tmp_path / "pipe.png")
    with pytest.raises(InputError, match="cannot be read"):
        decode(tmp_path / ("long" * 200))


def test_messages_lead_to_the_mistake(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"\x08\x0a")
    with pytest.raises(InputError, match=r"m\.onnx: got a model, expected an image; the model comes first"):
        decode(tmp_path / "m.onnx")
    with pytest.raises(InputError, match=r"https://host/a\.jpg is a URL, expected a file: download it first"):
        decode("https://host/a.jpg")
    with pytest.raises(InputError, match="got a truncated or damaged JPEG image"):
        decode(encode(Image.fromarray(RGB), "JPEG")[:100])
    closed = Image.fromarray(RGB)
    closed.close()
    with pytest.raises(InputError, match="got a closed image"):
        decode(closed)


def test_large_images_within_the_limit_give_no_warning():
    assert decode(encode(Image.new("1", (10_000, 9_000)), "PNG")).size == (10_000, 9_000)


def test_decompression_bombs_are_refused_before_decoding():
    with pytest.raises(InputError, match=r"too large|at most"):
        decode(encode(Image.new("1", (16000, 16000)), "PNG"))
    with pytest.raises(InputError, match="at most 100 pixels"):
        decode(RGB, max_pixels=100)
    with pytest.raises(InputError, match="at most 100 pixels"):
        decode(encode(Image.fromarray(RGB), "PNG"), max_pixels=100)


@pytest.mark.filterwarnings("ignore::UserWarning")  # what Pillow says of cut TIFF files
def test_truncation_anywhere_never_gives_a_foreign_error():
    for kind in ("PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP", "PPM"):
        data = encode(Image.fromarray(RGB), kind)
        for length in range(1, len(data), 7):
            try:
                decode(data[:length])
            except InputError as error:
                assert "\n" not in str(error)  # noqa: PT017 - some cuts only lose trailing bytes


def test_find_images_is_sorted_recursive_and_by_suffix(tmp_path):
    for name in ("b.PNG", "a/z.jpeg", "a/y.txt", ".hidden.jpg", "a/b/c.webp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [str(path.relative_to(tmp_path)) for path in find_images(tmp_path)]
    assert found == ["a/b/c.webp", "a/z.jpeg", "b.PNG"]
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="no images"):
        find_images(tmp_path / "none")
    with pytest.raises(InputError, match="no such folder"):
        find_images(tmp_path / "absent")
